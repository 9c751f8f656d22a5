"""Near-duplicates in Scrapy: a pipeline that drops items that are nearly the same as one before.

Add to settings.py::

    ADDONS = {"simdb.scrapy.Addon": 500}

What an item gives is named by settings:

==========================  ====================================================================================
SIMDB_PATH                  the database; without it, ``seen.simdb`` in ``JOBDIR``, or in the current folder
SIMDB_SHARED                whether crawls in several processes share the database: each connects to a process that
                            serves it, which is started if there is none (``simdb.connect``); False
SIMDB_KEY_FIELD             the field with the key; ``url``
SIMDB_TEXT_FIELD            the field with the text; ``text``
SIMDB_HTML_FIELD            the field with the page (str or bytes), for items without a text; ``html``
SIMDB_SCOPE_FIELD           the field with the scope: near-duplicates are then looked for within it; none
SIMDB_MAX_DISTANCE          what is near, in bits; that of the database
SIMDB_MIN_SIMILARITY        the least similarity; that of the database
SIMDB_ON_MATCH              ``skip`` drops near-duplicates; ``link`` keeps them and only counts them; ``skip``
SIMDB_NEAREST_FIELD         the field that gets the key of the nearest one before, with ``link``; none
SIMDB_PRIORITY              the place of the pipeline among others; 100
==========================  ====================================================================================

An item that is passed on is stored, and stays so after a kill. An item that comes again under its own key is passed on
again, since an item is never near to itself. So a crawl that was killed can begin anew and loses nothing.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from itemadapter import ItemAdapter
from scrapy.exceptions import DropItem, NotConfigured
from scrapy.utils.asyncio import is_asyncio_available

import simdb

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

__all__ = ["Addon", "Pipeline"]


class Addon:
    """Puts the pipeline among those of a crawl."""

    def update_settings(self, settings: BaseSettings) -> None:
        settings.setdefault_in_component_priority_dict(
            "ITEM_PIPELINES", Pipeline, settings.getint("SIMDB_PRIORITY", 100)
        )


class Pipeline:
    """Drops items that are nearly the same as one before, by ``DropItem``.

    Counts in the stats: ``simdb/new``, ``simdb/duplicates``, ``simdb/too_short`` and ``simdb/without_text``.
    """

    def __init__(self, crawler: Crawler) -> None:
        settings = crawler.settings
        path = settings.get("SIMDB_PATH")
        if not path:
            path = os.path.join(settings.get("JOBDIR") or "", "seen.simdb")
        self.path: str = path
        self.is_shared = settings.getbool("SIMDB_SHARED")
        self.key_field: str = settings.get("SIMDB_KEY_FIELD", "url")
        self.text_field: str = settings.get("SIMDB_TEXT_FIELD", "text")
        self.html_field: str = settings.get("SIMDB_HTML_FIELD", "html")
        self.scope_field: str | None = settings.get("SIMDB_SCOPE_FIELD")
        self.nearest_field: str | None = settings.get("SIMDB_NEAREST_FIELD")
        self.asked: dict[str, Any] = {"on_match": settings.get("SIMDB_ON_MATCH", "skip")}
        if settings.get("SIMDB_MAX_DISTANCE") is not None:
            self.asked["max_distance"] = settings.getint("SIMDB_MAX_DISTANCE")
        if settings.get("SIMDB_MIN_SIMILARITY") is not None:
            self.asked["min_similarity"] = settings.getfloat("SIMDB_MIN_SIMILARITY")
        self.stats = crawler.stats
        self.database: simdb.Database | simdb.Client | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Pipeline:
        return cls(crawler)

    def open_spider(self) -> None:
        if not is_asyncio_available():
            raise NotConfigured("simdb.scrapy needs the asyncio reactor, which is the default: see TWISTED_REACTOR")
        folder = os.path.dirname(self.path)
        if folder:
            os.makedirs(folder, exist_ok=True)
        self.database = simdb.connect(self.path, timeout=30, start=True) if self.is_shared else simdb.open(self.path)

    def close_spider(self) -> None:
        if self.database is not None:
            self.database.close()

    async def process_item(self, item: Any) -> Any:
        assert self.database is not None
        fields = ItemAdapter(item)
        given: dict[str, Any] = {}
        text = fields.get(self.text_field)
        html = fields.get(self.html_field)
        # A spider that finds no text may write a blank one. Then the page counts.
        if text is not None and (html is None or text.strip()):
            given["text"] = text
        elif html is not None:
            given["html"] = html
        key = fields.get(self.key_field)
        if isinstance(key, int):
            key = str(key)
        if not key or not given:
            self._count("without_text")
            return item
        if self.scope_field is not None:
            scope = str(fields.get(self.scope_field) or "")
            given.update(scope=scope, scopes=[scope])
        verdict = await self.database.submit(key, **given, **self.asked)
        if verdict.too_short:
            self._count("too_short")
        elif verdict.is_new:
            self._count("new")
        else:
            self._count("duplicates")
        nearest = verdict.nearest
        if nearest is not None and self.nearest_field is not None:
            fields[self.nearest_field] = nearest.key
        if not verdict.stored and nearest is not None:
            raise DropItem(f"nearly {nearest.key} (distance {nearest.distance})")
        return item

    def _count(self, what: str) -> None:
        if self.stats is not None:
            self.stats.inc_value(f"simdb/{what}")
