package archtest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// numbers is a table of what a place may have more than a rule allows: one number for each "place kind".
type numbers struct {
	file string // the table, for violations
	may  map[string]int
}

// parseNumbers reads lines of the form "place kind number reason".
func parseNumbers(file, table string) (numbers, []violation) {
	t := numbers{file, map[string]int{}}
	var vs []violation
	for line := range lines(table) {
		w := strings.Fields(line)
		if len(w) < 6 { // a reason has three words at least
			vs = append(vs, violation{pos: file, problem: line + ": has no reason", fix: "write it after the number"})
			continue
		}
		n, err := strconv.Atoi(w[2])
		if err != nil {
			vs = append(vs, violation{pos: file, problem: line + ": has no number", fix: "write it after the kind"})
			continue
		}
		t.may[w[0]+" "+w[1]] = n
	}
	return t, vs
}

// unused reports the lines that allow more than there is. have returns how many there are of a "place kind".
func (t numbers) unused(have func(key string) int) []violation {
	var vs []violation
	for _, key := range slices.Sorted(maps.Keys(t.may)) {
		if n := have(key); n < t.may[key] {
			vs = append(vs, violation{pos: t.file, problem: fmt.Sprintf("%s %d: there are only %d", key, t.may[key], n),
				fix: "lower the number, or delete the line"})
		}
	}
	return vs
}
