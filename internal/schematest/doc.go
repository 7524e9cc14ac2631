// Package schematest compares the files in docs/schemas with the Go types that commands print as JSON.
//
//	func TestSchema(t *testing.T) { schematest.Compare(t, "doctor", "what ibrun doctor --json prints", Report{}) }
//
// `make schemas` writes the files.
package schematest
