package foreign

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// taskProgram is a program that consecutive ranks run.
type taskProgram struct {
	ranks int
	words []Word
}

// assignTasks returns the programs of the lines in the order of their ranks. count is the value of -n; empty: the lines name
// all ranks.
func assignTasks(name string, lines []taskLine, count string) ([]taskProgram, error) {
	owners, err := taskOwners(name, lines, count)
	if err != nil {
		return nil, err
	}
	var programs []taskProgram
	offsets := make([]int, len(lines)) // how many ranks of each line there are already
	before := -1
	for rank, owner := range owners {
		l := &lines[owner]
		words := expandTask(l.words, rank, offsets[owner])
		offsets[owner]++
		if before == owner && slices.Equal(words, programs[len(programs)-1].words) {
			programs[len(programs)-1].ranks++
			continue
		}
		if before = owner; len(programs) == maxPrograms {
			return nil, l.at.errorAt(0, "the file makes more than %d programs", maxPrograms)
		}
		programs = append(programs, taskProgram{1, words})
	}
	return programs, nil
}

// taskOwners returns for each rank the index of its line.
func taskOwners(name string, lines []taskLine, count string) ([]int, error) {
	ranks, others := 0, -1
	for i, l := range lines {
		if l.ranks == nil {
			others = i
		}
		for _, r := range l.ranks {
			ranks = max(ranks, r[1]+1)
		}
	}
	if count != "" {
		n, err := strconv.Atoi(count)
		if err != nil || n < 1 || n > maxTasks {
			return nil, fmt.Errorf("-n %s: want a number of ranks from 1 to %d", count, maxTasks)
		}
		ranks = n
	} else if others >= 0 {
		return nil, lines[others].at.errorAt(0, "* stands for the other ranks: say with -n how many ranks there are")
	}
	owners := slices.Repeat([]int{-1}, ranks)
	for i, l := range lines {
		for _, r := range l.ranks {
			for rank := r[0]; rank <= r[1]; rank++ {
				switch {
				case rank >= ranks:
					return nil, l.at.errorAt(0, "rank %d is out of range: the job has ranks 0 to %d", rank, ranks-1)
				case owners[rank] >= 0:
					return nil, l.at.errorAt(0, "rank %d already has a program, in line %d", rank, lines[owners[rank]].at.line)
				}
				owners[rank] = i
			}
		}
	}
	for rank, owner := range owners {
		switch {
		case owner >= 0:
		case others < 0:
			return nil, fmt.Errorf("%s: no line has a program for rank %d", name, rank)
		default:
			owners[rank] = others
		}
	}
	return owners, nil
}

// expandTask replaces %t by the rank and %o by its number among the ranks of the line. %% is a percent sign.
func expandTask(words []Word, rank, offset int) []Word {
	replacer := strings.NewReplacer("%t", strconv.Itoa(rank), "%o", strconv.Itoa(offset), "%%", "%")
	expanded := slices.Clone(words)
	for i := range expanded {
		expanded[i].Text = replacer.Replace(expanded[i].Text)
	}
	return expanded
}
