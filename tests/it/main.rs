//! The tests of simdb from outside: the library and the command-line program.

mod cli;
mod copy;
mod damage;
mod data;
mod exactness;
mod files;
mod floors;
mod input;
mod kill;
mod large;
mod leftovers;
mod levels;
mod library;
mod limits;
mod model;
mod names;
mod owners;
mod panics;
mod second_reader;
mod strays;
mod support;
mod together;
mod window;
