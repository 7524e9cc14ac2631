// Package archtest is a test of the repository's own source: it reports every place that violates a rule of its architecture.
// The package has no code besides.
//
//	go test ./internal/archtest
//
// The rules:
//
//  1. Imports follow the layers drawn in docs/architecture.md. The policy is the text in layers_test.go. Every package that it
//     names exists.
//  2. Package unsafe is imported only in files named *_unsafe.go. Each of them begins with a comment that gives the reason.
//     Every assembly function has a Go version, and a test compares the two.
//  3. A function has at most 70 lines and a file at most 600.
//  4. Every package and every exported name has a doc comment. In package mpi the comment names the section of the standard.
//  5. Every decoder of bytes from outside the process has a fuzz target, and a test that passes it every strict prefix of valid
//     input. proofs.txt lists them; every function and test that it names exists.
//  6. Every call on the hot path is in a test that counts allocations. proofs.txt lists these tests as well. They count by
//     alloctest.Count, and nothing else uses testing.AllocsPerRun.
//  7. Every transport passes the suite in fabric/fabrictest.
//  8. Style: code is formatted with gofmt, lines have at most 130 columns, a package name says what the package provides, a
//     to-do comment has an issue number, and there are no init functions and no package-level variables that hold state. In a
//     format, only verbs with an index follow one with an index.
//  9. Tests wait for conditions, by internal/waittest, and not for a time: they do not call time.Sleep or time.After, make
//     contexts or connections with deadlines, compare elapsed time, or set durations below 10 s. waits.txt names the places that
//     do, with reasons; it may only become shorter.
//  10. Tests draw the same random numbers in each run: by a generator with a constant seed, or with that of soaktest.Seed, which
//     is random only when tests run all their cases.
//  11. What ibrun and its commands print passes through internal/printable: only the places in exceptions.txt use a standard
//     stream. JSON is written to a writer for JSON.
//  12. A type has at most 60 methods and 30 fields. sizes.txt names those that have more; its numbers only become less.
//  13. In a package of more than 15 files at most 25 % of the arrows between files run back up. An arrow leads from a file to one
//     that declares something that it uses: a type, a function, a method, a field, or a variable or constant of the package.
//     The files are in an order in which few arrows run back: strongly connected components first, then by numbers of arrows.
//     The test prints the arrows with -v.
//  14. A package below internal/ with under 125 lines must not have exactly one importer: its code belongs there. Tests
//     count as a part of the package in their folder.
//
// Do not change a rule to make a build pass. If one place has a good reason to violate rule 3, 11, 13 or 14, or to have an init
// function or a variable that rule 8 forbids, name the place and the reason in exceptions.txt. A line there that is no longer
// needed is a violation too.
package archtest
