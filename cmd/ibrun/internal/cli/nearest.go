package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli/foreign"
)

// CommandHint returns what a user may mean by a first word that is neither one of these commands nor a program, or "".
func CommandHint(word string, commands []string) string {
	guesses := foreign.CommandGuesses()
	if write, found := foreign.Find(guesses, word); found {
		return "write " + write
	}
	names := slices.Clone(commands)
	for _, g := range guesses {
		names = append(names, g.Names...)
	}
	nearest := nearestWord(word, names)
	if write, found := foreign.Find(guesses, nearest); found {
		return fmt.Sprintf("if you mean %s, write %s", nearest, write)
	}
	if nearest == "" || len(word) < 3 {
		return ""
	}
	return fmt.Sprintf("did you mean ibrun %s?", nearest)
}

// nearestFlag returns the nearest name of a listed flag, of a flag of another launcher, or of one that users guess: see
// nearestWord.
func nearestFlag(word string, known []flag) string {
	var names []string
	for _, f := range known {
		if f.help != "" {
			names = append(names, f.names...)
		}
	}
	names = append(names, foreign.Names()...)
	for _, g := range foreign.FlagGuesses() {
		names = append(names, g.Names...)
	}
	return nearestWord(word, names)
}

// nearestWord returns the name that begins with word, if there is one, or else has the smallest edit distance to it. It returns
// "" if all of them are too different to be meant.
func nearestWord(word string, names []string) string {
	const atLeast = 3 // letters, to count as an abbreviation
	longer := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !strings.HasPrefix(name, word) })
	if len(longer) > 0 && len(word) >= atLeast {
		return slices.MinFunc(longer, func(a, b string) int { return len(a) - len(b) })
	}
	nearest, distance := closest(word, names)
	if distance > max(2, len(word)/3) || distance > len(word)/2 {
		return ""
	}
	return nearest
}

// closest returns the name with the smallest edit distance to word, and that distance.
func closest(word string, names []string) (name string, distance int) {
	name = slices.MinFunc(names, func(a, b string) int { return EditDistance(word, a) - EditDistance(word, b) })
	return name, EditDistance(word, name)
}

// EditDistance returns the number of insertions, deletions and replacements of bytes that turn a into b.
func EditDistance(a, b string) int {
	row := make([]int, len(b)+1) // of the table of distances between the prefixes of a and b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
