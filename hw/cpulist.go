package hw

import (
	"errors"
	"fmt"
	mathbits "math/bits"
	"slices"
	"strconv"
	"strings"
)

// maxID bounds the numbers in a set, so that a damaged file cannot make Read allocate all memory. Linux supports at most
// 8192 PUs.
const maxID = 1 << 13

// ErrMalformed means that a file in the sysfs tree does not have the format that the kernel writes.
var ErrMalformed = errors.New("hw: malformed sysfs file")

// ErrBind means that a thread could not be bound to all requested PUs.
var ErrBind = errors.New("hw: not all PUs can be used")

// parseList parses the kernel's list format of a set of numbers, "0-3,8\n", and returns the set ascending. The newline
// proves that the text is complete.
func parseList(text string) ([]int, error) {
	body, whole := strings.CutSuffix(text, "\n")
	if !whole {
		return nil, fmt.Errorf("%w: list %.40q has no end", ErrMalformed, text)
	}
	var ids []int
	for part := range strings.SplitSeq(body, ",") {
		if part == "" && body == "" {
			return nil, nil // a node without PUs
		}
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		lo, errLo := strconv.ParseUint(first, 10, 31)
		hi, errHi := strconv.ParseUint(last, 10, 31)
		if errLo != nil || errHi != nil || lo > hi || hi >= maxID {
			return nil, fmt.Errorf("%w: %.40q in list", ErrMalformed, part)
		}
		if len(ids) > 0 && int(lo) <= ids[len(ids)-1] {
			return nil, fmt.Errorf("%w: list is not ascending at %.40q", ErrMalformed, part)
		}
		for id := lo; id <= hi; id++ {
			ids = append(ids, int(id))
		}
	}
	return ids, nil
}

// parseMask parses the kernel's mask format of a set of numbers: hexadecimal words of 32 bits, highest first.
// "00000001,0000010f\n" is 0-3,8,32.
func parseMask(text string) ([]int, error) {
	body, whole := strings.CutSuffix(text, "\n")
	if !whole || body == "" || len(body) > maxID/4+maxID/32 {
		return nil, fmt.Errorf("%w: mask %.40q has no end", ErrMalformed, text)
	}
	body = strings.TrimSuffix(body, "\n") // the mask of a cache on POWER ends in two newlines
	words := strings.Split(body, ",")
	var ids []int
	for i, word := range slices.Backward(words) {
		bits, err := strconv.ParseUint(word, 16, 64)
		if err != nil || len(words) > 1 && bits >= 1<<32 {
			return nil, fmt.Errorf("%w: %.40q in mask", ErrMalformed, word)
		}
		for first := (len(words) - 1 - i) * 32; bits != 0; bits &= bits - 1 {
			ids = append(ids, first+mathbits.TrailingZeros64(bits))
		}
	}
	if len(ids) > 0 && ids[len(ids)-1] >= maxID {
		return nil, fmt.Errorf("%w: mask goes up to %d", ErrMalformed, ids[len(ids)-1])
	}
	return ids, nil
}

// FormatList formats a set of numbers as the kernel does: 0-3,8. The numbers may be in any order. The empty set is "".
func FormatList(ids []int) string {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	var b strings.Builder
	for i := 0; i < len(ids); {
		j := i
		for j+1 < len(ids) && ids[j+1] == ids[j]+1 {
			j++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(ids[i]))
		if j > i {
			b.WriteString("-" + strconv.Itoa(ids[j]))
		}
		i = j + 1
	}
	return b.String()
}
