package mpi

import (
	"fmt"

	"github.com/ibrun/ibrun/mpi/internal/core"
)

// The functions of this package take slices of any type. Numbers take the shortest path. Elements that are structs or arrays are
// views. The functions of this file make the views of blocks of a slice, for collectives.

// partsOf returns the parts of a slice that belong to the ranks: counts[i] elements at displs[i], or one after the other. It is
// nil without counts.
func partsOf[T any](op string, x []T, counts, displs []int) ([]View, error) {
	if displs != nil && len(displs) != len(counts) {
		return nil, countError(op, "%d displacements for %d counts", len(displs), len(counts))
	}
	var parts []View
	next := 0
	for i, n := range counts {
		if displs != nil {
			next = displs[i]
		}
		if n < 0 || next < 0 || next > len(x) || n > len(x)-next {
			return nil, countError(op, "the block of rank %d (%d elements at %d) exceeds the buffer of %d elements", i, n, next, len(x))
		}
		parts = append(parts, elements(op, x[next:next+n]))
		next += n
	}
	return parts, nil
}

func countError(op, format string, args ...any) error {
	return public(core.NewError(op, core.ErrCount, fmt.Errorf(format, args...)))
}

// ownPart returns what a rank contributes: its part of dst if the call is in place, that is, if src is dst, and else src.
func ownPart[T any](op string, c *Comm, dst []T, parts []View, src []T) View {
	if r := c.Rank(); len(src) > 0 && len(src) == len(dst) && &src[0] == &dst[0] && r >= 0 && r < len(parts) {
		return parts[r]
	}
	return elements(op, src)
}

// gatherParts returns the parts of whole, which the root of a Gatherv or Scatterv has, and what this rank contributes or gets.
func gatherParts[T any](op string, c *Comm, whole []T, counts, displs []int, own []T, root int) (
	parts []View, mine View, err error,
) {
	if c == nil || c.Rank() != root && root != Root {
		return nil, elements(op, own), nil
	}
	if parts, err = partsOf(op, whole, counts, displs); err != nil {
		return nil, mine, err
	}
	return parts, ownPart(op, c, whole, parts, own), nil
}

// allgatherParts returns the parts of dst, and what this rank contributes.
func allgatherParts[T any](op string, c *Comm, dst []T, counts, displs []int, src []T) (parts []View, mine View, err error) {
	if parts, err = partsOf(op, dst, counts, displs); err != nil || c == nil {
		return parts, mine, err
	}
	return parts, ownPart(op, c, dst, parts, src), nil
}

// alltoallParts returns the parts of dst and src, which are the same if the call is in place. Two slices
// without elements cannot be told apart: the call is in place if no counts are given for src.
func alltoallParts[T any](op string, dst []T, rcounts, rdispls []int, src []T, scounts, sdispls []int) (
	in, out []View, err error,
) {
	if in, err = partsOf(op, dst, rcounts, rdispls); err != nil {
		return nil, nil, err
	}
	nothing := len(dst) == 0 && len(src) == 0 && scounts == nil
	if nothing || len(src) > 0 && len(src) == len(dst) && &src[0] == &dst[0] {
		return in, in, nil
	}
	out, err = partsOf(op, src, scounts, sdispls)
	return in, out, err
}

// messageSize returns the bytes of an element in a message: those of its fields without padding; -1 if T is not a type of
// elements.
func messageSize[T any]() int {
	if core.IsNumber[T]() {
		return sizeOf[T]()
	}
	t, err := core.ElementsFor[T]()
	if err != nil {
		return -1
	}
	return int(t.Size())
}
