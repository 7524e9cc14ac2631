// Package check validates what commands print against the schemas in the folder above. It is a module of its own, so that ibrun does
// not depend on a validator.
package check
