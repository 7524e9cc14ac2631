// Command conformance holds the product against the standard, statement by statement:
//
//	go run ./internal/conformance
//
// A statement has an id, such as S0-57, and stands in statements.txt in our own words. A test of it is a subtest that carries
// the id, t.Run("S0-57", ...), in whatever package. The command finds the tests that hold such subtests, runs them, and writes
// docs/conformance.md: each statement, its tests, and what came of them, or why it cannot apply. It prints how many pass and
// ends with 1 if any does not.
//
// Tests tell by attributes (testing.T.Attr) how far they go: mpitest how many ranks a world had, on how many nodes, and tests
// with processes of their own what they did to these. A statement whose tags ask for several ranks or nodes, or for something
// that changes while the program runs, does not pass without a test that had it.
//
// The tests run twice: once with ranks that share a node, and, in packages that use mpitest, once with every two ranks on a node
// of their own, over TCP. A statement passes if every subtest with its id, and all that is below it, has run and passed, each
// time. What was skipped, or has no test, has not passed: a machine that cannot run a test cannot say that the statement holds.
package main
