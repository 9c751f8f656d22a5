//! What is read of pages, whole and broken. The texts are pinned: another text would be another fingerprint.

use super::*;

fn words(page: &str) -> String {
    words_as(page, Syntax::from_beginning(page))
}

fn words_as(page: &str, syntax: Syntax) -> String {
    visible_text(page, syntax)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

/// One after another: the page, and the words that a browser shows.
fn assert_all(pages: &[(&str, &str)]) {
    for (page, shown) in pages {
        assert_eq!(words(page), *shown, "{page}");
    }
}

#[test]
fn what_is_not_shown_is_left_out() {
    let page = "<!DOCTYPE html><html><head><title>Title</title><style>p { color: red }</style></head>\
                <body><!-- comment --><script>if (a < b) { \"<p>no</p>\" }</script><p>Seen</p>\
                <noscript>enable</noscript><svg><path/><text>drawn</text></svg><svg/> too</body></html>";
    assert_eq!(words(page), "Seen drawn too");
}

#[test]
fn blocks_separate_words_and_inline_elements_do_not() {
    assert_eq!(
        words("<p>one</p><p>t<b>w</b>o</p>three<br>four<td>five"),
        "one two three four five"
    );
}

/// Texts of such pages were one giant word, or lines of a few.
#[test]
fn what_a_style_makes_a_block_parts_words() {
    for value in ["block", "flex", "grid", "table-cell", "list-item"] {
        let page = format!("one<span style='display:{value}'>two</span>three");
        assert_eq!(words(&page), "one two three", "{value}");
    }
    for value in ["inline", "inline-block", "contents", "ruby", "nosuch"] {
        let page = format!("o<span style='display:{value}'>n</span>e");
        assert_eq!(words(&page), "one", "{value}");
    }
    assert_all(&[
        ("<div style='display:inline'>one</div>two", "one two"),
        ("one<img style='display:block'>two", "one two"),
        ("o<b style='display:block;display:inline'>n</b>e", "one"),
        (
            "a<span style='position:absolute'>one</span><span style='position: fixed'>two</span>b",
            "a one two b",
        ),
        ("a<span style='position:relative'>one</span>b", "aoneb"),
        (
            "<span style='float:left'>one</span><span style='float:right'>two</span>b",
            "one two b",
        ),
        ("<p><span style='float:left'>O</span>nce", "Once"),
        (
            "<p><span style='float:left'>\u{201c}O</span>nce",
            "\u{201c}Once",
        ),
        ("a<b style='float:none'>b</b>", "ab"),
        (
            "<b style='float:left'><i style='float:left'>a</i>bc</b>d",
            "abc d",
        ),
        (
            "<p>a<span style='display:flex'><b>one</b>two<i>three<u>four</u></i></span>b",
            "a one two threefour b",
        ),
        (
            "a<span style='display:inline-grid'><b>one</b><b>two</b></span>b",
            "a one two b",
        ),
        (
            "a<span style='display:inline'><b>one</b><b>two</b></span>b",
            "aonetwob",
        ),
    ]);
}

/// Lines of a label were glued.
#[test]
fn text_of_svg_with_a_place_of_its_own_is_a_line() {
    let page = "<svg><text><tspan x=0 y=0>The council</tspan><tspan x=0 dy=1em>voted on \
                M</tspan><tspan x=3 y=9>on</tspan><tspan dx=2>day</tspan><tspan x=9> </tspan>";
    assert_eq!(words(page), "The council voted on Monday");
}

#[cfg(feature = "ingest")]
#[test]
fn paragraphs_are_blocks_whatever_the_lines_of_the_page_are() {
    let page = "<h1>A title</h1>\n<p>One\n\n<b>two</b>\r\nthree<p>four<ul><li>five<li>six</ul>";
    let paragraphs = visible_paragraphs(page, Syntax::Html);
    let paragraphs: Vec<&str> = paragraphs
        .split("\n\n")
        .filter(|it| !it.trim().is_empty())
        .collect();
    assert_eq!(
        paragraphs,
        ["A title", "One  two three", "four", "five", "six"]
    );
}

#[cfg(feature = "ingest")]
#[test]
fn lines_of_preformatted_text_are_those_of_a_plain_text() {
    let text = "One\n\ntwo\nthree\r\n\r\nfour\r\rfive";
    for (begin, end) in [
        ("<pre>", "</pre>"),
        ("<pre><b>", "</b></pre>"),
        ("<listing><p>", "</listing>"),
        ("<xmp>", "</xmp>"),
        ("<plaintext>", ""),
    ] {
        let page = format!("<p>a\n\nb{begin}{text}{end}");
        assert_eq!(
            visible_paragraphs(&page, Syntax::Html).trim_end(),
            "a  b\n\nOne\n\ntwo\nthree\n\nfour\n\nfive",
            "{begin}"
        );
    }
    assert_eq!(
        visible_paragraphs("<pre>a\n\n</pre>b\n\nc", Syntax::Html).trim_end(),
        "a\n\nb  c"
    );
    // A line that ends with its block ends a paragraph.
    assert_eq!(
        visible_paragraphs("<pre>a\n</pre>b", Syntax::Html).trim_end(),
        "a\n\n\nb"
    );
    assert_eq!(
        visible_paragraphs("<textarea>a\n\nb</textarea>", Syntax::Html).trim(),
        "a\n\nb"
    );
}

#[test]
fn broken_markup_is_text_as_far_as_it_goes() {
    assert_eq!(words("<p>open <b>bold <i>and"), "open bold and");
    assert_eq!(words("</div></p>closed"), "closed");
    assert_eq!(
        words("<head><title>t</title><body>body without end of head"),
        "body without end of head"
    );
    assert_eq!(words("a < b and <"), "a < b and <");
    assert_eq!(words("<p>cut in a ta<g attr=\"x"), "cut in a ta");
    assert_eq!(words(""), "");
    assert_eq!(
        words("<svg><object></svg>seen</object> too<title>a title</title>"),
        "seen too"
    );
    assert_eq!(words("<head><svg><body>seen</svg> too"), "seen too");
}

#[test]
fn a_head_without_end_ends_where_the_body_must_begin() {
    assert_eq!(
        words("<head><meta><title>t</title><script>no</script><p>seen"),
        "seen"
    );
    assert_eq!(
        words("<head><title>t</title> \n bare text<style>no</style> seen"),
        "bare text seen"
    );
    assert_eq!(
        words("<head><noscript><p>no</p></noscript><style>no</style></head>seen"),
        "seen"
    );
}

#[test]
fn unknown_and_inline_elements_part_no_word() {
    for name in [
        "var",
        "time",
        "label",
        "output",
        "samp",
        "ruby",
        "tt",
        "strike",
        "nobr",
        "bdi",
        "my-element",
        "blink",
    ] {
        assert_eq!(
            words(&format!("Tues<{name}>day</{name}>s")),
            "Tuesdays",
            "{name}"
        );
    }
    assert_all(&[
        (
            "Tues<wbr>day Tues\u{ad}day<!-- x -->s",
            "Tuesday Tues\u{ad}days",
        ),
        (
            "a<img>b<input>c<button>d</button>e<svg></svg>f",
            "a b c d e f",
        ),
        ("a<div>b</div>c<custom-a>d</custom-a>e", "a b cde"),
        ("<ruby>漢<rp>(</rp><rt>kan</rt><rp>)</rp>字</ruby>", "漢字"),
    ]);
}

#[test]
fn a_box_parts_words_whatever_is_shown_in_it() {
    for name in [
        "audio",
        "canvas",
        "iframe",
        "meter",
        "object data=x",
        "progress",
        "video",
    ] {
        let end = name.split(' ').next().expect("it has a name");
        for (attribute, shown) in [
            ("", "one two"),
            (" hidden", "onetwo"),
            (" style='display:none'", "onetwo"),
        ] {
            let page = format!("one<{name}{attribute}>no</{end}>two");
            let rest = "<p>".to_owned() + &"x".repeat(64);
            assert_eq!(words(&(page + &rest)), format!("{shown} {}", &rest[3..]));
        }
    }
    assert_all(&[
        ("one<datalist>no</datalist>two", "onetwo"),
        ("one<rp>(</rp>two", "onetwo"),
        ("one<template><p>no</template>two", "onetwo"),
    ]);
}

/// Browsers let a form end with what is open in it.
#[test]
fn a_form_parts_words_where_it_ends() {
    assert_all(&[
        ("<form><b>o</form>ne</b>two", "one two"),
        ("<form><b>o</form>n</b></form>e", "on e"),
        ("<form>one</form>two", "one two"),
        ("<form><p>o</form>ne<p>two", "o ne two"),
    ]);
}

#[cfg(feature = "ingest")]
#[test]
fn a_box_within_a_line_ends_no_paragraph() {
    let page = "<p>Let <math><mi>x</mi><mo>=</mo><mn>1</mn></math> and <img> <svg><text>y</text></svg> be.<p>Two";
    let paragraphs = visible_paragraphs(page, Syntax::Html);
    let paragraphs = paragraphs
        .split("\n\n")
        .map(|it| it.split_whitespace().collect::<Vec<_>>().join(" "));
    let paragraphs: Vec<String> = paragraphs.filter(|it| !it.is_empty()).collect();
    assert_eq!(paragraphs, ["Let x = 1 and y be.", "Two"]);
}

#[test]
fn svg_ends_where_browsers_end_it() {
    assert_all(&[
        ("<svg><title/><path/></svg>seen", "seen"),
        ("<svg><style/><script/><desc/><metadata/></svg>seen", "seen"),
        (
            "<svg><title>no</title><desc>no</desc><text>drawn</text></svg> seen",
            "drawn seen",
        ),
        ("<svg><path><p>seen", "seen"),
        ("<svg><g><div>seen</div></svg> too", "seen too"),
        ("<div><svg></div>seen", "seen"),
        ("<div><svg><g><math></div>seen", "seen"),
        ("<svg><font color=red>seen", "seen"),
        ("<svg><font>not drawn", ""),
        ("<svg></p>seen", "seen"),
        ("<svg><br>seen", "seen"),
        ("<table><tr><td><svg></table>seen", "seen"),
        (
            "<svg>Your browser draws nothing.<text>drawn</text><g><text><tspan>t</tspan></text></g></svg>",
            "drawn t",
        ),
        (
            "<svg><foreignObject><p>seen</p></foreignObject></svg>",
            "seen",
        ),
        (
            "<svg><defs><text>no</text></defs><symbol><text>no</text></symbol><text display=none>no</text></svg>s",
            "s",
        ),
        (
            "<svg><![CDATA[no]]><text><![CDATA[a < b]]></text></svg>",
            "a < b",
        ),
        ("<![CDATA[no]]>seen", "seen"),
        ("<svg/>seen", "seen"),
        (
            "<svg><text><tspan x=1 y=2>a</tspan><tspan x=5 y=2>b</tspan><tspan x=1 y=9>c</tspan></text></svg>",
            "ab c",
        ),
        (
            "<p style='display:-webkit-box'>a<b>b</b></p><span style='display:-webkit-box'>c</span>d",
            "a b c d",
        ),
        (
            "<svg><text>a<tspan>b</tspan><a>c</a>d</text><text>e</text></svg>",
            "abcd e",
        ),
        ("one<input type=hidden>word<input>two", "oneword two"),
        (
            "<svg><a href=x><text>link</text></a><script>no<text>no</text></script></svg>",
            "link",
        ),
    ]);
}

#[test]
fn mathematics_is_text() {
    assert_all(&[
        (
            "<math><mfrac><mn>1</mn><mn>2</mn></mfrac><mi>x</mi></math>",
            "1 2 x",
        ),
        (
            "<math><semantics><mi>x</mi><annotation>\\x</annotation></semantics></math>",
            "x",
        ),
        (
            "<math><semantics><mi>x</mi><annotation-xml encoding=text/html><p>no</p></annotation-xml></semantics>",
            "x",
        ),
        (
            "<math><mtext>a<b>c</b></mtext><mphantom><mi>no</mi></mphantom></math>",
            "ac",
        ),
        ("<math><mi>x<p>seen</math>", "x seen"),
        ("<p><math><mrow></p>seen", "seen"),
    ]);
}

#[test]
fn templates_are_not_shown_and_shadow_roots_are() {
    assert_all(&[
        ("<template><p>no</p></template>seen", "seen"),
        (
            "<my-a><template shadowrootmode=open><p>shadow</p></template>light</my-a>",
            "shadow light",
        ),
        (
            "<my-a><template shadowrootmode=CLOSED><p>shadow</template></my-a>",
            "shadow",
        ),
        (
            "<my-a><template shadowrootmode=none><p>no</template></my-a>seen",
            "seen",
        ),
        ("<template><template></template>no</template>seen", "seen"),
        (
            "<template><table><tr><td>no</table></div></template>seen",
            "seen",
        ),
        (
            "<head><template><p>no</template><title>no</title></head>seen",
            "seen",
        ),
    ]);
}

#[test]
fn what_has_to_be_opened_is_not_shown() {
    let rest =
        "What is left of this page is long enough to be what the page shows to all who read it.";
    for hidden in [
        "<div hidden>no</div>",
        "<div hidden='until found'><p>no<p>no</div>",
        "<div hidden id=af>no</div><div hidden id=afx1>no</div>",
        "<template id=pl-0-0>no</template><template id=1>no</template>",
        "<?marker name='c'><template for=d>no</template><template id=N:>no</template>",
        "<template for=c>no</template><template id=U:x>no</template>",
        "<font class=jammer>no</font><font style='font-size:12px;font-size:0px;color:#fff'>no</font>",
        "<script type=math/tex></script><b class='x MathJax_Preview'>no</b><b id=MathJax-Element-1-Frame>no</b>",
        "<b class=katex-mathml></b><b class='a katex-html b'>no</b>",
        "<div style='visibility:hidden;max-height: 0px'>no</div>",
        "<div class=gutter><pre><span>1</span>\n<br>2 </pre></div><a href=#1 data-nosnippet>1</a>",
        "<span class=source-line-no>001</span><span id=L1 class=LineNr>1 </span>",
        "<span style='visibility:hidden'>no</span>",
        "<span class=katex-mathml></span><span class=katex-html aria-hidden=true>no</span>",
        "<div class='modal fade' role=dialog aria-hidden=true>no</div>",
        "<pre><span class=linenos> 1</span><span class='ln x'>20</span><a class=lnt>3</a></pre>",
        "<div style='opacity:0;visibility:hidden;position:fixed'>no</div>",
        "<div hidden id=S:>no</div><div hidden id=S:0x>no</div><div hidden id=0>no</div>",
        "<script type=text/javascript>no</script><script type=math>no</script>",
        "<DIV HIDDEN=''>no</DIV>",
        "<dialog>no</dialog>",
        "<div popover>no</div>",
        "<div style='display:none'>no</div>",
        "<div style=\"color: red; Display : NONE !important\">no</div>",
        "<div style=\"&#100;isplay:none\">no</div>",
        // The first of two attributes counts.
        "<div STYLE='display&colon;none' style='display:block'>no</div>",
        "<div style='content-visibility: hidden'>no</div>",
        "<div style='display:none'><div style='display:block'>no</div></div>",
        "<ul><li hidden>no<li style='display:none'>no</ul>",
        "<table><tr hidden><td>no<tr><td hidden>no</table>",
        "<p hidden>no<div></div>",
        "<form hidden><label></form>no</label>",
        "<form style='display:none'><div></form>no</form>no</div>",
        "<datalist><option>no</datalist><audio>no</audio><video>no</video><canvas>no</canvas><object data=x>no</object>",
        "<meter value=1>no</meter><progress>no<b>no</b></progress>",
        "<iframe>no</iframe><noembed>no</noembed><noframes>no</noframes><noscript>no</noscript>",
    ] {
        assert_eq!(words(&format!("{hidden}<p>{rest}")), rest, "{hidden}");
    }
    assert_eq!(
        words(&format!(
            "x<span hidden>no</span>y<div hidden>no</div>z{rest}"
        )),
        format!("xyz{rest}")
    );
    for shown in [
        "<div>yes</div>",
        "<dialog open>yes</dialog>",
        "<div hidden style='display:flex'>yes</div>",
        "<div style='display:none;display:block'>yes</div>",
        "<div style='background:url(display:none)'>yes</div>",
        "<div style='--display:none'>yes</div>",
        "<div data-hidden aria-hidden=true>yes</div>",
        "<div style='visibility:hidden'><p style='visibility:visible'>yes</p></div>",
        "<details><summary>yes</summary></details>",
        "<select><option>yes</select>",
        "<textarea>yes</textarea>",
        "<object>yes</object>",
        "<table hidden><tr>yes</table>",
        "<b><div><span hidden></b>yes</div>",
        "<a><div><p><span style='display:none'><a>yes</a></div>",
        "<b hidden><div></b>yes</div>",
        "<form hidden></form>yes",
        // Parts of a page of React, which its script puts into their places, and formulas that readers see.
        "<div hidden id=\"S:0\">yes</div>",
        "<div hidden id='blog-S:1f'><p>yes</div>",
        "<table hidden id=S:a><tr><td>yes</table>",
        "<p><script type='math/tex; mode=display'>yes</script></p>",
        "<p><script type='Math/AsciiMath ;mode=inline'>yes</script></p>",
        // What is there to be found, or comes into sight by a script.
        "<div hidden=until-found><p>yes</div>",
        "<div role=tabpanel hidden><p>yes</div>",
        "<div hidden id=af0>yes</div>",
        "<template id=0-0-1><p>yes</template>",
        "<div class='wow' style='visibility: hidden; animation-name: none;'>yes</div>",
        "<div style='opacity: 0; visibility: hidden'>yes</div>",
        "<ul style='font-size:0'><li>yes</ul>",
        "<font style='font-size:0;font-size:12px'>yes</font>",
        "<div class=jammer>yes</div>",
        "<p class=katex-html>yes</p>",
        "<p class=linenos>yes</p>",
        "<div role=dialog>yes</div>",
        "<div role=region aria-labelledby=a hidden>yes</div>",
        "<template blazor-component-id=6><p>yes</template>",
        "<p><span class='mwe-math-mathml-inline mwe-math-mathml-a11y' style='display: none;'><math><mi>yes</mi></math></span></p>",
        // Saved without scripts, or with a style sheet for both.
        "<p><b id=MathJax-Element-1-Frame>yes</b></p>",
        "<style>.katex-mathml{}</style><p><b class=katex-html>yes</b></p>",
        "<table hidden><tbody id='S:0'><tr><td>yes</table>",
        "<table hidden><tr id=\"a-S:1f\"><td>yes</table>",
        "<p id=pl-0000a10></p><template id=0000a10>yes</template>",
        "<template id=0-1-f>yes</template>",
        "<template data-hono-target='H:0'>yes</template>",
        "<p><?start name=\"c\"><?end></p><template for=c>yes</template>",
        "<p><?marker name='c'></p><template for='c'>yes</template>",
        "<t hidden M_=0>yes</t>",
        "<template id=N:1 data-sr>yes</template>",
        "<template id='U:a'>yes</template>",
        "<template id=sycamore-suspense-1>yes</template>",
        "<div><template shadowroot=open><p>yes</template></div>",
        // Formulas that are drawn beside MathML.
        "<p><b id=MathJax-Element-1-Frame><nobr aria-hidden=true>x</nobr><span class=MJX_Assistive_MathML><math><mi>yes</mi></math></span></b></p>",
        "<p><mjx-container><mjx-math aria-hidden=true><mjx-c>x</mjx-c></mjx-math><mjx-assistive-mml><math><mi>yes</mi></math></mjx-assistive-mml></mjx-container></p>",
        "<p><nobr aria-hidden=true>yes</nobr></p>",
        "<div hidden><preact-island hidden data-target=58>yes</preact-island></div>",
        "<div id=ds-0-r hidden>yes</div>",
        "<div style='visibility: hidden;'>yes</div>",
        "<div class='row gutter'><div></div>yes</div>",
        "<span class=ln><span></span>yes</span>",
        "<p><abbr class=ln>yes</abbr></p>",
    ] {
        assert_eq!(
            words(&format!("{shown}<p>{rest}")),
            format!("yes {rest}"),
            "{shown}"
        );
    }
}

#[test]
fn a_page_that_hides_nearly_all_of_itself_is_read_whole() {
    let story = "The council voted on Monday to close the old bridge for a year. The ferry will run twice as often.";
    for page in [
        format!("<html hidden><body style='display:none'><p>{story}"),
        format!("<div style='display:none'><p>{story}</div>"),
        format!("<main hidden><p>{story}</main><dialog>no</dialog><template>no</template>"),
        format!("<div style='visibility:hidden'>{story}</div>"),
        // How a page is indented says nothing of what it shows.
        format!(
            "{}<div style='visibility:hidden'>{story}</div>",
            format!("<p>{}</p>\n", "\u{a0}&nbsp; \n\t".repeat(20)).repeat(10)
        ),
    ] {
        assert_eq!(words(&page), story, "{page}");
    }
    // A page of its own with a menu that is closed.
    let notice =
        "We use cookies to give you the best experience on our site. By going on you agree.";
    for hidden in ["style='display:none'", "hidden"] {
        let page = format!(
            "<div>{notice}</div><ul {hidden}><li>{}</ul>",
            [story; 4].join(" ")
        );
        assert_eq!(words(&page), notice);
    }
    let dialog = format!("<p>Short.<dialog>{story}</dialog><div popover>{story}</div>");
    assert_eq!(words(&dialog), "Short.");
}

/// Forums send their threads so to those who run no scripts.
#[test]
fn a_page_that_is_there_for_browsers_without_scripts_is_read_as_they_do() {
    let story = "The council voted on Monday to close the old bridge for a year. ".repeat(6);
    let menu = "<ul><li>Home<li>Docs<li>Forum</ul><section id=main></section>";
    let page = |menu: &str, story: &str| {
        format!(
            "{menu}<noscript><div id=main-outlet><h1>Thread</h1><p>{story}</p></div></noscript>"
        )
    };
    assert_eq!(
        words(&page(menu, &story)),
        format!("Home Docs Forum Thread {}", story.trim())
    );
    // Where a page shows itself, or has little for them, it is as in all browsers.
    let long = format!("<p>{story}</p>");
    assert_eq!(words(&page(&long, &story)), story.trim());
    assert_eq!(
        words(&page(menu, "Please enable JavaScript.")),
        "Home Docs Forum"
    );
    let style = format!(
        "<noscript><style>{}</style></noscript>",
        "p{color:red}".repeat(50)
    );
    assert_eq!(words(&format!("{menu}{style}")), "Home Docs Forum");
}

#[test]
fn of_a_long_list_to_choose_from_only_some_is_text() {
    let options: String = (0..100).map(|i| format!("<option>o{i}")).collect();
    let page =
        format!("<select>{options}<option selected>own</select><select><option>next</select>");
    let shown: Vec<String> = (0..20).map(|i| format!("o{i}")).collect();
    assert_eq!(words(&page), format!("{} own next", shown.join(" ")));
}

#[test]
fn xhtml_is_read_as_xml_where_it_differs() {
    let pages = [
        (
            "<head><script src='a.js'/><title/><style/></head><body>seen</body>",
            "seen",
        ),
        ("<p>one<![CDATA[ < two & ]]>three</p>", "one < two & three"),
        (
            "<textarea/><iframe/><noscript/><template/><div hidden='hidden'/><canvas/>seen",
            "seen",
        ),
        (
            "<p><?xml:namespace prefix = o ns = \"urn:schemas-microsoft-com:office:office\" />one<?php 1; >two</p>",
            "onetwo",
        ),
        (
            "<p>a<?php echo '>' ?>b<!-- > -->c&nbsp;d&eacute;</p>",
            "abc dé",
        ),
        ("<!DOCTYPE html [<!ENTITY x '>'>]><p>seen</p>", "seen"),
        (
            "<html:p>one</html:p><m:math><m:mn>1</m:mn></m:math><svg:svg><svg:title/></svg:svg>two",
            "one 1 two",
        ),
        (
            "<script>if (a < b) {}</script><script><![CDATA[ <p>no ]]></script>seen",
            "seen",
        ),
        // What stands in CDATA ends nothing, and no declaration ends within quotes.
        (
            "<script>//<![CDATA[\nd.write('<script></script>');\n//]]></script>se\
             <style><![CDATA[ a:after{content:'</style>'} ]]></style>en",
            "seen",
        ),
        ("<script><![CDATA[ <![CDATA[ </script>seen", "seen"),
        (
            "<!DOCTYPE html [<!ENTITY x ']>no'><!-- ]>no -->]><p>seen</p>",
            "seen",
        ),
        ("<plaintext/>se<plaintext>en</plaintext>", "se en"),
        // A prefix for another language is a part of the name.
        (
            "<p>a</p><dc:title xmlns:dc='urn:x'>b</dc:title><dc:style>c</dc:style><p>d</p>",
            "a bc d",
        ),
        (
            "<h:html xmlns:h='http://www.w3.org/1999/xhtml'><h:head><h:title>no</h:title>\
             <h:script>no</h:script></h:head><h:body>se<h:textarea>e</h:textarea>n</h:body></h:html>",
            "se e n",
        ),
    ];
    for (page, shown) in pages {
        assert_eq!(words_as(page, Syntax::Xhtml), shown, "{page}");
        for declaration in [
            "<?xml version='1.0'?>",
            "\u{feff}\n<?xml version=\"1.0\" encoding=\"UTF-8\" ?>\n",
        ] {
            assert_eq!(words(&format!("{declaration}{page}")), shown, "{page}");
        }
    }
    for page in [
        "<?xml-stylesheet href='x'?><script/>",
        "<?xml version='1.0'><script/>",
        "<p><?xml version='1'?>",
    ] {
        assert_eq!(Syntax::from_beginning(page), Syntax::Html, "{page}");
    }
}

#[test]
fn tags_open_and_close_what_browsers_open_and_close() {
    assert_all(&[
        ("<title>no</title no>seen", "seen"),
        ("<title>no</titlex></title>seen", "seen"),
        ("<script><!--<script></script>no</script>seen", "seen"),
        ("<script><!-->no</script>seen", "seen"),
        ("<script><!--<script>no--></script>seen", "seen"),
        (
            "<!-->seen<!--->too<!-- no --!>three<!-- no -- > no -->four<!-- no",
            "seentoothreefour",
        ),
        ("</ no><! no><?no>seen</>", "seen"),
        ("<a href='no>no'no=\">\" no/>seen</a no=\"/>\">", "seen"),
        ("<div =no>seen<br/ >too</br>three", "seen too three"),
        (
            "<textarea></div>&amp;<!-- a --></textarea> b",
            "</div>&<!-- a --> b",
        ),
        ("<xmp>&amp;<p></xmp> b", "&amp;<p> b"),
        ("<plaintext></plaintext>&amp;", "</plaintext>&amp;"),
        (
            "<frameset><frame>no<noframes>no</noframes></frameset>no",
            "",
        ),
        ("seen<frameset>too", "seentoo"),
        ("<svg><title>no<p>no</svg>no</title>no", ""),
        ("<b><table><td></b>a</table>b</b>c", "a bc"),
        ("<object data=x>no</object>seen</object>", "seen"),
        ("<select><option>a<option>b<p>c</select>d", "a b c d"),
        ("</body></html>seen<p>too", "seen too"),
        (
            "a\0b<svg><text>\0</text></svg>c\rd\r\ne",
            "ab \u{fffd} c d e",
        ),
        ("cut in a comment<!", "cut in a comment"),
        ("cut in a reference &am", "cut in a reference &am"),
        ("cut before a name </", "cut before a name </"),
    ]);
}

/// The time that a page may take. What is not optimised takes longer, and other programs run.
const PATIENCE: u64 = if cfg!(debug_assertions) { 30 } else { 5 };

/// A page of 40 kB once ended the process: each attribute took some of the stack. The stack is small here.
#[test]
fn hostile_pages_take_linear_time_and_little_stack() {
    let bytes = if cfg!(debug_assertions) {
        1_000_000
    } else {
        10_000_000
    };
    let of = |piece: &str| piece.repeat(bytes / piece.len());
    let pieces = [
        "<div>",
        "<ul><li>",
        "<b>",
        "<b>x ",
        "<a href=x><i>",
        "<nav><a href=x>",
        "<nav></aside></nav>",
        "<p><b>",
        "<!---->",
        "<!--",
        "&amp;",
        "&nosuch;",
        "&#x110000;&amp&lt&nosuch;&#0;",
        "&a",
        "<",
        "</",
        "<svg></math>",
        "<svg><p>",
        "<table><td>",
        "<table><tr><td>a cell of a table",
        "<table>",
        "<select><option>",
        "<math><mi>",
        "<svg><desc>",
        "<template>",
        "<x-a>",
        "</div>",
        "<div></x>",
        "<title>",
        "<script><!--<script>",
        "<svg><![CDATA[",
        "<form><div></form>",
        "<b><div></b>",
        "<b><p></b>",
        "<table><b><tr><td></b>",
        "<div hidden>x",
        "\0",
        "\r",
    ];
    let mut pages: Vec<String> = pieces.iter().map(|piece| of(piece)).collect();
    pages.push(format!("<div {}>", of("a=\"\" ")));
    pages.push(format!("<div style=\"{}\">", of("/**/;(")));
    pages.push(format!("<div {}>", of("b=\"<")));
    pages.push(format!("<p class=\"{}\">", of("x ")));
    pages.push(format!("<x><div>{}{}", "<b>".repeat(508), of("</x>")));
    pages.push(format!(
        "<p><marquee>{}{}",
        "<div>".repeat(505),
        of("<div></div>")
    ));
    pages.push(format!(
        "<div><table><td>{}{}",
        "<b>".repeat(505),
        of("</div>")
    ));
    pages.push(of(&format!("<b>{}<p></b>", "<i>".repeat(500))));
    let read = move || {
        for page in &pages {
            let began = std::time::Instant::now();
            visible_text(page, Syntax::Html);
            visible_text(page, Syntax::Xhtml);
            main_content(page, Syntax::Html);
            assert!(
                began.elapsed().as_secs() < PATIENCE,
                "{page:.40}: {:?}",
                began.elapsed()
            );
        }
    };
    let thread = std::thread::Builder::new()
        .stack_size(512 << 10)
        .spawn(read)
        .expect("a thread begins");
    assert!(thread.join().is_ok());
}

proptest::proptest! {
    /// No page ends the process.
    #[test]
    fn any_page_is_read(page in "(<[!/?]?(p|svg|b|table|td|title|script|math|mi|a|template|x|-|!)? ?[=\"']?>?|&#?[a-z0-9]{0,4};?|[a-c <>\0é]){0,80}") {
        visible_text(&page, Syntax::Html);
        visible_text(&page, Syntax::Xhtml);
    }

    #[test]
    fn text_without_markup_is_all_text(text in "[a-z .,é中]{0,80}") {
        let read = visible_text(&text, Syntax::Html);
        proptest::prop_assert_eq!(read.trim(), text.trim());
    }
}

/// The numbers of a page were those that the ones above and below the line made with the others.
#[test]
fn digits_above_and_below_the_line_are_no_part_of_the_number_before() {
    for (page, text) in [
        ("10<sup>6</sup> and 10<sup>&#51;</sup>", "10⁶ and 10³"),
        ("1<sup>st</sup> council<sup>[1]</sup>", "1st council[¹]"),
        ("2011<sub>15ya</sub> H<sub>2</sub>O", "2011 15ya H2O"),
        ("2<sup>1</sup>/<sub>2</sub> cups", "2¹/2 cups"),
        ("<sup><b>1</b></sup>2<sub></sub>3", "¹ 23"),
        ("2011<sub><i>15</i></sub>", "2011 15"),
        ("10<sup>6</sup><sub>2</sub>", "10⁶ 2"),
        // It is not open any more.
        (
            "<font><sup><p>note 1</font></p><p>Windows10",
            "note ¹ Windows10",
        ),
        ("<sup>14</sup>2020", "¹⁴ 2020"),
    ] {
        assert_eq!(words(page), text, "{page}");
    }
    assert_eq!(words("<li><b style='float:right'>12</b>Books"), "12 Books");
    assert_eq!(words("<p><b style='float:left'>O</b>nce"), "Once");
}

/// The number was lost, and all behind it.
#[test]
fn what_has_more_than_a_number_is_no_number_of_a_line() {
    let rest =
        "What is left of this page is long enough to be what the page shows to all who read it.";
    for (page, text) in [
        (
            "<div class=gutter><div>2024</div><div>A story</div></div>",
            "2024 A story",
        ),
        ("<span class=ln><span>1</span> news</span>", "1 news"),
        ("<b class=ln>1</b><i data-nosnippet>42</i> end", "42 end"),
        ("<a class=ln>1</abbr>2</a>3", "3"),
        ("<a class=ln>1<i>", "1"),
    ] {
        let page = format!("{page}<p>{rest}");
        assert_eq!(words(&page), format!("{text} {rest}"), "{page}");
    }
}

/// A notice in six languages was the text of all short pages of a site.
#[test]
fn a_notice_that_asks_for_scripts_is_no_page() {
    let notice = "Bitte aktivieren Sie JavaScript, um diese Seite zu lesen. ".repeat(20);
    let page = format!("<noscript>{notice}</noscript><p>a short page of some words");
    assert_eq!(words(&page), "a short page of some words");
}

/// Discourse sends its threads so, with such a line below.
#[test]
fn a_thread_for_browsers_without_scripts_may_ask_for_them_below() {
    let thread = "A story that somebody has told. ".repeat(20);
    let page = format!(
        "<p>Home<noscript><p>{thread}</p><p>Powered by Discourse, best viewed with JavaScript enabled</p></noscript>"
    );
    assert!(words(&page).contains("has told"), "{}", words(&page));
}

/// The end of a block, and of a line of the source, joined what stands beside it.
#[test]
fn a_hyphen_joins_nothing_beyond_the_lines_that_a_page_shows() {
    for page in [
        "<div>vitamin a-</div><div>grade student</div>",
        "<p>vitamin a-\ngrade student",
        "<p>vitamin a<b>-</b>  \r\n grade student",
        "<li>vitamin a-</li><li>grade student",
    ] {
        assert_eq!(normalize_words(page), "vitamin a- grade student", "{page}");
    }
    assert_eq!(
        normalize_words("<pre>vitamin ex-\n  ample"),
        "vitamin example"
    );
}

fn normalize_words(page: &str) -> String {
    let text = visible_text(page, Syntax::from_beginning(page));
    let words = crate::text::unicode::normalize(&text);
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}
