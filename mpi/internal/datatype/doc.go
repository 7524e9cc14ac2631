// Package datatype defines the kinds of elements in messages.
//
// Everything in this package may be used by several goroutines concurrently.
package datatype
