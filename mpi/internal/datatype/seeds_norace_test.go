//go:build !race

package datatype

const randomSeeds = 10000
