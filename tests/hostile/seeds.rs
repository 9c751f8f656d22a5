//! What the corpora began with: a few inputs of each kind, as those that write well write them.

use std::io::Write as _;

use super::file;
use crate::store::hostile::seeds as stored;

/// The first inputs of a target.
pub(super) fn seeds(name: &str) -> Vec<Vec<u8>> {
    match name {
        "annotate" => [texts(ANNOTATED), texts(JSON)].concat(),
        "block" => stored::block(),
        "directory" => stored::directory(),
        "state" => stored::state(),
        "log" => stored::log(),
        "record" => stored::record(),
        "file" => file::seeds(),
        "warc" => archives(),
        "input" => [archives(), texts(JSON), texts(TABS), texts(PAGES)].concat(),
        "http" => texts(RESPONSES),
        "html" => texts(PAGES),
        "encodings" => encodings(),
        "jsonl" => texts(JSON),
        "tsv" => texts(TABS),
        "dump" => texts(DUMPS),
        "removed" => texts(REMOVED),
        "socket" => texts(REQUESTS),
        _ => panic!("there is no target {name}"),
    }
}

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

const JSON: &[&str] = &[
    r#"{"key":"a","text":"one two three four five six seven eight nine ten","seen":1700000000,"repeats":2,"rank":[1,-2],"scope":"en"}"#,
    r#"{"url":"http://a/","html":"<p>one<p>two","time":"2024-02-29T23:59:60Z","payload":"x","group":"g"}"#,
    r#"{"id":-7,"fingerprint":"0123456789abcdef","sketch":"00112233445566778899aabbccddeeff","shingles":9}"#,
    r#"{"key_base64":"/w==","features":{"a":1.5,"b":-2},"payload_base64":"/w=="}"#,
    r#"{"key":18446744073709551615,"features":["a","b"],"seen":1.9e9,"too_short":true}"#,
    r#"{"key":"\ud83c","text":"\u0000"}"#,
    r#"{"key":"a","text":NaN}"#,
    "{\"key\":\"s\",\"text\":\"First. Second! Third?\\n\\nNext paragraph.\"}",
];

const ANNOTATED: &[&str] = &[
    r#"{"key":"a","text":"one, two","dedup_group":1,"dedup_size":[2,{"a":"}"}]}"#,
    r#"{ "a" : "\"," , "b" : {"a":1} , "\u0061" : [] }"#,
    r#"{}"#,
];

const REMOVED: &[&str] = &[
    r#"{"input":"pages.jsonl","line":3,"key":"b","survivor":{"input":"pages.jsonl","line":1,"key":"a"},"distance":1,"similarity":0.94}"#,
    r#"{"input_base64":"/w==","record":1,"survivor":{"key_base64":"/w=="},"distance":0}"#,
    r#"{"input":"a.parquet","row":7,"survivor":{"input":"b.parquet","row":9},"distance":10,"similarity":1.0}"#,
];

const TABS: &[&str] = &[
    "key\tsome words of a text",
    "k\\te\\\\y\tone\\ntwo\\rthree\\four",
    "key\t0123456789abcdef",
    "\u{feff}key\ttext",
    "no tab",
];

const PAGES: &[&str] = &[
    "<!DOCTYPE html><html><head><title>T</title><script>if (a<b) {}</script><style>p{}</style></head>\
     <body><h1>Head</h1><p>Some <b>bold &amp; &nGt; &#x41;&#65 words</b><br>more<ul><li>1<li>2</ul></body></html>",
    "<?xml version='1.0'?><html xmlns='http://www.w3.org/1999/xhtml'><body><![CDATA[<p>]]><script/>x</body></html>",
    "<table><tr><td hidden>a<td style='display:none'>b<td aria-hidden=true>c<textarea>&lt;</textarea><plaintext><b>",
    "<svg><title>a</title><foreignObject><p>b</foreignObject></svg><math><mi>x</mi></math><template>t</template>",
    "<!-- a --!><!--><![CDATA[x]]><?php x ?></p></br><a href=x>link</a><select><option>o<noscript>n</noscript>",
];

const RESPONSES: &[&str] = &[
    "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=iso-8859-1\r\n\r\n<p>page",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200\r\nContent-Type: text/plain\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\ntext",
    "HTTP/2 200\nContent-Type: text/html\nTransfer-Encoding: chunked\nX: a\n  b\n\n5\r\n<p>on\r\n3;x=y\r\ne p\r\n0\r\n\r\n",
    "HTTP/1.0 404 Not Found\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Encoding: gzip, deflate\r\nContent-Type: text/html\r\n\r\n\u{1f}\u{8b}",
];

const DUMPS: &[&str] = &[
    "{\"simdb_dump\":3,\"scheme\":\"external\",\"plan\":\"4x16\",\"max_distance\":3,\"sketch_bytes\":16,\
     \"min_similarity\":0.0,\"created\":1700000000,\"documents\":1}\n\
     {\"key\":\"a\",\"fingerprint\":\"0123456789abcdef\",\"sketch\":\"00112233445566778899aabbccddeeff\",\"shingles\":9,\
     \"seen\":7,\"repeats\":3,\"rank\":[1],\"scope\":\"en\",\"payload\":\"p\"}\n",
    "{\"key_base64\":\"/w==\",\"too_short\":true,\"seen\":-9,\"payload_base64\":\"/w==\"}\n",
    "{\"simdb_dump\":2,\"scheme\":\"minwise-1\",\"plan\":null,\"max_distance\":3,\"sketch_bytes\":32,\
     \"min_similarity\":0.5,\"created\":null,\"documents\":99}\n{\"key\":\"\",\"seen\":0}\n",
];

const REQUESTS: &[&str] = &[
    "{\"simdb_admin\":3,\"arguments\":[\"get\",\"d.simdb\",{\"base64\":\"/w==\"}],\"directory\":\"/tmp\",\"file\":[7,8],\
     \"input\":true}\n{\"input\":3}\nabc{\"input\":0}\n",
    "{\"simdb_admin\":3,\"arguments\":[],\"directory\":\"relative\",\"file\":[7,8]}\n",
    "{\"simdb_admin\":9,\"other\":[]}\n",
    "{\"progress\":[1,null,\"x\"]}\n",
    "{\"out\":\"text\"}",
    "\n",
    "*8\r\n$7\r\nSIM.ADD\r\n$1\r\na\r\n$16\r\n00000000000000ff\r\n$4\r\nKEEP\r\n$1\r\n2\r\n$5\r\nTOUCH\r\n$7\r\nREPEATS\r\n$1\r\n5\r\n*1\r\n$4\r\nPING\r\n*1\r\n$9\r\nSIM.FLUSH\r\n",
    "*6\r\n$9\r\nSIM.QUERY\r\n$16\r\n00000000000000ff\r\n$6\r\nSCOPES\r\n$1\r\n1\r\n$1\r\na\r\n$5\r\nORDER\r\n",
    "*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n*2\r\n$7\r\nCOMMAND\r\n$4\r\nDOCS\r\n*0\r\n*1\r\n$4\r\nQUIT\r\n",
    "*2\r\n$10\r\nSIM.EXPIRE\r\n$1000000000\r\n",
    "*12\r\n$6\r\nchange\r\n$7\r\nskipped\r\n$5\r\ntotal\r\n:1\r\n$5\r\nexact\r\n:1\r\n$7\r\nmatches\r\n*0\r\n\
     $7\r\ndeleted\r\n*0\r\n$8\r\nreplaced\r\n$-1\r\n",
    "*4\r\n$9\r\nSIM.QUERY\r\n$16\r\n00000000000000ff\r\n$7\r\nNEAREST\r\n$2\r\n10\r\n*6\r\n$9\r\nSIM.QUERY\r\n$16\r\n\
     00000000000000ff\r\n$5\r\nLIMIT\r\n$1\r\n1\r\n$7\r\nNEAREST\r\n$2\r\n-1\r\n",
    "*10\r\n$11\r\nSIM.OVERLAP\r\n$12\r\nA text. More\r\n$4\r\nUNIT\r\n$9\r\nparagraph\r\n$7\r\nWITHOUT\r\n$1\r\nk\r\n\
     $6\r\nSCOPES\r\n$1\r\n1\r\n$1\r\na\r\n$5\r\nLIMIT\r\n",
    "*16\r\n$6\r\njudged\r\n:1\r\n$9\r\ntoo_short\r\n:0\r\n$5\r\nfound\r\n:1\r\n$10\r\ncharacters\r\n:9\r\n\
     $16\r\nfound_characters\r\n:9\r\n$15\r\ntotal_documents\r\n:1\r\n$9\r\ndocuments\r\n*1\r\n*12\r\n$3\r\nkey\r\n$1\r\n\
     a\r\n$5\r\nunits\r\n:1\r\n$10\r\ncharacters\r\n:9\r\n$5\r\nshare\r\n$1\r\n1\r\n$11\r\nfirst_units\r\n:1\r\n$4\r\n\
     seen\r\n:7\r\n$5\r\nunits\r\n*1\r\n*10\r\n$5\r\nstart\r\n:0\r\n$3\r\nend\r\n:9\r\n$10\r\ncharacters\r\n:9\r\n$9\r\n\
     too_short\r\n:0\r\n$5\r\nfirst\r\n*14\r\n$3\r\nkey\r\n$3\r\na#1\r\n$4\r\nseen\r\n:7\r\n$8\r\ndistance\r\n:0\r\n\
     $10\r\nsimilarity\r\n$1\r\n1\r\n$11\r\ncontainment\r\n$1\r\n1\r\n$11\r\nsketch_bits\r\n*2\r\n:0\r\n:128\r\n$8\r\n\
     shingles\r\n*2\r\n:9\r\n:9\r\n",
];

fn archives() -> Vec<Vec<u8>> {
    let record = |kind: &str, content_type: &str, content: &str| {
        format!(
            "WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: <http://a/>\r\nWARC-Date: 2024-02-29T12:00:00Z\r\n\
             Content-Type: {content_type}\r\nContent-Length: {}\r\n\r\n{content}\r\n\r\n",
            content.len()
        )
    };
    let info = record("warcinfo", "application/warc-fields", "software: x\r\n");
    let response = record(
        "response",
        "application/http; msgtype=response",
        RESPONSES[0],
    );
    let request = record(
        "request",
        "application/http; msgtype=request",
        "GET / HTTP/1.1\r\n\r\n",
    );
    let resource = record("conversion", "text/plain", "some words of a text");
    let wrong = response.replace("Content-Length: ", "Content-Length: 1");
    let parts = [&info, &response, &request, &resource];
    let whole = parts.map(String::as_str).concat();
    let gzipped = parts.map(|part| gzip(part.as_bytes())).concat();
    let zstd = |part: &String| zstd::encode_all(part.as_bytes(), 1).expect("memory can be written");
    let zstd = parts.map(zstd).concat();
    let mut cut = gzipped.clone();
    cut[info.len() / 2] ^= 1;
    vec![
        whole.clone().into_bytes(),
        format!("{wrong}{resource}").into_bytes(),
        whole.replace("\r\n", "\n").into_bytes(),
        gzipped,
        zstd,
        cut,
    ]
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(bytes).expect("memory can be written");
    packed.finish().expect("memory can be written")
}

/// Texts behind the byte that chooses what is said of them.
fn encodings() -> Vec<Vec<u8>> {
    let text = "Größe привет こんにちは 你好 안녕";
    let mut seeds = vec![
        [&[32], text.as_bytes()].concat(),
        [&[16], "<meta charset=koi8-r>\u{e9}".as_bytes()].concat(),
    ];
    for (choice, encoding) in [
        (4, encoding_rs::SHIFT_JIS),
        (6, encoding_rs::ISO_2022_JP),
        (7, encoding_rs::GB18030),
        (8, encoding_rs::BIG5),
        (9, encoding_rs::EUC_KR),
        (11, encoding_rs::WINDOWS_1251),
    ] {
        seeds.push([&[choice], &*encoding.encode(text).0].concat());
    }
    for mark in [[0xff, 0xfe], [0xfe, 0xff]] {
        let mut wide = vec![32];
        wide.extend(mark);
        for unit in text.encode_utf16() {
            wide.extend(if mark[0] == 0xff {
                unit.to_le_bytes()
            } else {
                unit.swap_bytes().to_le_bytes()
            });
        }
        seeds.push(wide);
    }
    seeds
}
