// Package archtest checks, as a test, the laws that this repository keeps. It has no code of its own.
//
//	go test ./internal/archtest
//
// The laws:
//
//  1. Imports obey the floors drawn in docs/architecture.md. The policy is the text in floors_test.go.
//  2. Package unsafe is imported only in files named *_unsafe.go, each opening with the reason. Assembly stands beside a
//     Go twin, and a test holds the two against each other.
//  3. Functions are at most 70 lines long and files at most 600.
//  4. Every package and every exported name has a doc comment. In package mpi it names the section of the standard.
//  5. Every decoder of foreign bytes has a fuzz target, and a test that cuts its input short (proofs.txt).
//  6. Every hot call stands in an allocation test (proofs.txt).
//  7. Every transport passes fabric/fabrictest.
//  8. The house is tidy: gofmt, lines of at most 130 columns, no package named after nothing, no notes to self without an
//     issue number, no init functions, no package-level variable that is state.
//
// A law is not changed to make a build pass. Where a single place has a good reason to break law 3 or one of the
// last two points of law 8, exceptions.txt says so; a line there that is no longer needed fails as well.
package archtest
