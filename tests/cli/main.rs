//! The command line as scripts see it: exit codes, stdout, stderr, JSON.

mod cat;
mod doctor;
mod run;
mod usage;
