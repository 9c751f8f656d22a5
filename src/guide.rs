#![doc = include_str!(concat!(env!("OUT_DIR"), "/guide.md"))]

#[doc = include_str!(concat!(env!("OUT_DIR"), "/crawling.md"))]
pub mod crawling {}

#[doc = include_str!(concat!(env!("OUT_DIR"), "/corpora.md"))]
pub mod corpora {}

#[doc = include_str!(concat!(env!("OUT_DIR"), "/administration.md"))]
pub mod administration {}

#[doc = include_str!(concat!(env!("OUT_DIR"), "/library.md"))]
pub mod library {}

#[doc = include_str!(concat!(env!("OUT_DIR"), "/commands.md"))]
pub mod commands {}

#[doc = include_str!(concat!(env!("OUT_DIR"), "/format.md"))]
pub mod format {}

#[doc = include_str!(concat!(env!("OUT_DIR"), "/schemes.md"))]
pub mod schemes {}

#[doc = include_str!(concat!(env!("OUT_DIR"), "/reliability.md"))]
pub mod reliability {}

#[doc = include_str!(concat!(env!("OUT_DIR"), "/protocol.md"))]
pub mod protocol {}

#[doc = include_str!(concat!(env!("OUT_DIR"), "/scale.md"))]
pub mod scale {}

#[doc = include_str!(concat!(env!("OUT_DIR"), "/pictures.md"))]
pub mod pictures {}
