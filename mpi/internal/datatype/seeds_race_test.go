//go:build race

package datatype

// The race detector also checks every pointer that is computed, which takes a hundred times as long.
const randomSeeds = 300
