// Flaky reads the events of tests that gotestsum has run, some of them again, and decides which failures count.
//
//	go run ./internal/flaky FILE
//
// FILE is what gotestsum has written with --jsonfile. A test that failed and passed when it was run again is printed as a line
// "flaky: package.Test: message". Of the messages of a test and its subtests, the last one is printed.
//
// Some failures count although a second run passed, because it proves nothing about them: those of tests that count
// allocations or look for leaks (by their names, or by what they print), of the seeds of fuzz targets, of the rules of the
// architecture, of a test in which a program crashed or had a data race, and of a package that failed without a failed test (its
// TestMain did, or the program ended early). The exit code is then 1, as it is for a test that never passed.
package main
