package hw

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxID bounds the numbers in a list, so that a damaged file cannot ask for all memory. Linux counts to 8192 today.
const maxID = 1 << 16

// ErrMalformed says that a file of the sysfs tree does not hold what the kernel writes there.
var ErrMalformed = errors.New("hw: malformed sysfs file")

// parseList reads the kernel's form of a set of numbers, "0-3,8\n", ascending. The newline tells that it is whole.
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

// FormatList writes a set of numbers in the kernel's form, 0-3,8, whatever their order. The empty set is "".
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
