// Command conformance checks the implementation against the statements of the standard:
//
//	go run ./internal/conformance
//
// A statement has an id, such as S0-57, and is paraphrased in statements.txt. A test of it is a subtest with the id as its name,
// t.Run("S0-57", ...), in any package. The command finds the tests with such subtests, runs them, and writes docs/conformance.md:
// each statement, its tests and their result, or why the statement does not apply. It prints how many statements pass, and exits
// with code 1 if one does not.
//
// Tests report their scope by attributes (testing.T.Attr). mpitest reports how many ranks and nodes a world had; tests with
// processes of their own report what they changed. If the tags of a statement require several ranks or nodes, or a change while
// the program runs, the statement passes only with a test of that scope.
//
// The tests run twice: once with all ranks on one node and, in packages that use mpitest, once with two ranks on each node, over
// TCP. A statement passes if every subtest with its id, and every subtest below it, has run and passed each time. A statement
// without a test, or with a skipped test, does not pass.
package main
