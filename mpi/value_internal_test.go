package mpi

import (
	"errors"
	"testing"
)

// FuzzValue: no bytes make decodeValue panic, and its errors have a class.
func FuzzValue(f *testing.F) {
	for _, s := range []string{"", "text", "\x00\x00\x00\x00\x00\x00\xf0\x3f", "\x03\x04\x00\x06"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		type pair struct {
			A int8
			B float64
		}
		_, err1 := decodeValue[float64]("x", b)
		_, err2 := decodeValue[string]("x", b)
		_, err3 := decodeValue[[]pair]("x", b)
		_, err4 := decodeValue[map[string][]int]("x", b)
		_, err5 := decodeValue[*struct{ Next *pair }]("x", b)
		for _, err := range []error{err1, err2, err3, err4, err5} {
			if err != nil && !errors.Is(err, ErrType) {
				t.Error(err)
			}
		}
	})
}
