package datatype

import (
	"errors"
	"fmt"
	"math/bits"
)

// The errors of this package wrap one of these. Each says in its text which argument was wrong and how.
var (
	// ErrOverflow says that a size, a displacement or an extent exceeds 63 bits.
	ErrOverflow = errors.New("exceeds 63 bits")
	// ErrNegativeCount says that a count or a block length is negative.
	ErrNegativeCount = errors.New("negative count")
	// ErrNegativeExtent says that the extent of a resized type is negative.
	ErrNegativeExtent = errors.New("negative extent")
	// ErrArgument says that an argument of a constructor has another value that it must not have.
	ErrArgument = errors.New("invalid argument")
	// ErrNoType says that a type is nil.
	ErrNoType = errors.New("the datatype is nil")
	// ErrNamed says that a predefined type has no contents.
	ErrNamed = errors.New("a predefined datatype has no contents")
	// ErrNotCommitted says that data was to be moved with a type before Commit.
	ErrNotCommitted = errors.New("the datatype is not committed")
	// ErrBounds says that elements lie outside the memory that they were to be in.
	ErrBounds = errors.New("elements lie outside the memory")
	// ErrOverlap says that entries of a type that receives data overlap.
	ErrOverlap = errors.New("entries of the datatype overlap")
	// ErrTruncated says that there is less external data than the elements need, or less room.
	ErrTruncated = errors.New("too few bytes")
	// ErrConversion says that a value has no external representation because it is too large.
	ErrConversion = errors.New("the value has no external32 representation")
	// ErrNoElement says that values of a Go type cannot be elements of messages.
	ErrNoElement = errors.New("not a type of elements")
)

// argumentError returns an error of a constructor about one of its arguments.
func argumentError(constructor string, err error, format string, args ...any) error {
	return fmt.Errorf("datatype %s: %s: %w", constructor, fmt.Sprintf(format, args...), err)
}

// checked computes with 64-bit numbers and remembers whether any result exceeded them. After that, results are 0.
type checked struct{ overflow bool }

func (c *checked) add(a, b int64) int64 {
	s := a + b
	if (s > a) != (b > 0) && b != 0 {
		c.overflow = true
		return 0
	}
	return s
}

func (c *checked) sub(a, b int64) int64 {
	s := a - b
	if (s < a) != (b > 0) && b != 0 {
		c.overflow = true
		return 0
	}
	return s
}

func (c *checked) mul(a, b int64) int64 {
	hi, lo := bits.Mul64(magnitude(a), magnitude(b))
	if hi != 0 || lo > 1<<63-1 {
		c.overflow = true
		return 0
	}
	if (a < 0) != (b < 0) {
		return -int64(lo)
	}
	return int64(lo)
}

// roundUp returns the least multiple of unit that is at least n. Both are not negative, and unit is a power of two.
func (c *checked) roundUp(n, unit int64) int64 {
	return c.add(n, unit-1) &^ (unit - 1)
}

// err returns the error of a constructor if a result was too large.
func (c *checked) err(constructor string) error {
	if !c.overflow {
		return nil
	}
	return argumentError(constructor, ErrOverflow, "size or extent")
}

func magnitude(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}
