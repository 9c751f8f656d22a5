//! The tests of simdb from outside: library and command-line program.

mod cli;
mod copy;
mod damage;
mod data;
mod exactness;
mod files;
mod floors;
mod input;
mod kill;
mod levels;
mod library;
mod model;
mod support;
mod together;
