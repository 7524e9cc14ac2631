// Package apitest holds the public API of this module as text, in api.txt, and tests that it did not change unseen: a change
// of the API shows in a diff. It has no code outside its tests.
//
//	go test ./internal/apitest -update
//
// writes api.txt after a deliberate change. docs/compatibility.md describes which changes a release may have.
package apitest
