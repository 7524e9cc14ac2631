package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Range is the numbers from Low to High, inclusive.
type Range struct{ Low, High int }

// Ranges is a list of ranges, in the order they were written.
type Ranges []Range

// Contains reports whether one of the ranges contains n.
func (rs Ranges) Contains(n int) bool {
	for _, r := range rs {
		if r.Low <= n && n <= r.High {
			return true
		}
	}
	return false
}

// Set reads a list such as "8,64K,1M" or "0-1K": numbers that are not negative, with K, M, G or T for powers of
// 1024, and ranges of them, separated by commas, and adds them to what is there. It makes *Ranges a flag.Value.
func (rs *Ranges) Set(text string) error {
	var list Ranges
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		low, err := Size(first)
		if err != nil {
			return err
		}
		high, err := Size(last)
		if err != nil {
			return err
		}
		if low > high {
			return fmt.Errorf("range %s goes backwards: write the smaller number first", part)
		}
		list = append(list, Range{low, high})
	}
	*rs = append(*rs, list...)
	return nil
}

// String returns the list in the syntax of Set, without the letters for powers of 1024.
func (rs Ranges) String() string {
	var parts []string
	for _, r := range rs {
		part := strconv.Itoa(r.Low)
		if r.High != r.Low {
			part += "-" + strconv.Itoa(r.High)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ",")
}

// Size reads a number such as 8, 64K or 1M, where the letters K, M, G and T are powers of 1024.
func Size(text string) (int, error) {
	digits, shift := text, 0
	if text != "" {
		if i := strings.IndexByte("KMGT", text[len(text)-1]&^0x20); i >= 0 {
			digits, shift = text[:len(text)-1], 10*(i+1)
		}
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || n > math.MaxInt>>shift {
		return 0, fmt.Errorf("invalid size %q: want a number such as 8, 64K or 1M", text)
	}
	return int(n) << shift, nil
}
