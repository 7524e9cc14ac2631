package allocation

import (
	"strconv"
	"strings"
)

// maxNesting bounds how deeply brackets contain brackets, and maxDigits the numbers in them.
const (
	maxNesting = 8
	maxDigits  = 18
)

// ExpandHostList returns the hosts of a list in Slurm's syntax, in its order: n[01-03,7],gpu[1-2]rack[3-4] means n01, n02, n03,
// n7, gpu1rack3, gpu1rack4, gpu2rack3 and gpu2rack4. Numbers are as wide as the first one of their range. The error is a
// [*inputfile.SyntaxError].
func ExpandHostList(text string) ([]string, error) {
	p := &listParser{text: text}
	names, err := p.list(0)
	if err != nil {
		return nil, err
	}
	if p.next() == ']' {
		return nil, errorAt(p.offset, "this bracket was not opened")
	}
	if p.offset < len(text) {
		return nil, errorAt(p.offset, "unexpected %q in a list of hosts", p.next())
	}
	return names, nil
}

// listParser reads a host list from left to right.
type listParser struct {
	text   string
	offset int
}

// next returns the next byte, or 0 at the end.
func (p *listParser) next() byte {
	if p.offset < len(p.text) {
		return p.text[p.offset]
	}
	return 0
}

// list reads elements separated by commas, up to a closing bracket or the end.
func (p *listParser) list(depth int) (names []string, err error) {
	for {
		begin := p.offset
		var more []string
		if depth > 0 && strings.IndexByte("],", byte(p.afterRange())) >= 0 {
			more, err = p.numbers()
		} else {
			more, err = p.element(depth)
		}
		if err != nil {
			return nil, err
		}
		if len(names)+len(more) > maxHosts {
			return nil, errorAt(begin, "there are more than %d hosts", maxHosts)
		}
		names = append(names, more...)
		if p.next() != ',' {
			return names, nil
		}
		p.offset++
	}
}

// afterRange returns the byte after the digits and dashes that are next.
func (p *listParser) afterRange() byte {
	rest := strings.TrimLeft(p.text[p.offset:], "0123456789-")
	if rest == "" {
		return ']' // the bracket is missing: numbers has the better message
	}
	return rest[0]
}

// element reads text and brackets without a comma, and returns all combinations.
func (p *listParser) element(depth int) ([]string, error) {
	begin := p.offset
	names := []string{""}
	for {
		switch c := p.next(); c {
		case 0, ',', ']':
			if p.offset == begin {
				return nil, errorAt(begin, "a host has no name")
			}
			return names, nil
		case '[':
			parts, err := p.brackets(depth)
			if err != nil {
				return nil, err
			}
			if len(names)*len(parts) > maxHosts {
				return nil, errorAt(begin, "there are more than %d hosts", maxHosts)
			}
			product := make([]string, 0, len(names)*len(parts))
			for _, name := range names {
				for _, part := range parts {
					product = append(product, name+part)
				}
			}
			names = product
		default:
			if !isHostRune(rune(c)) || depth > 0 && isNotDigit(rune(c)) {
				return nil, errorAt(p.offset, "unexpected %q in a list of hosts", c)
			}
			literal := p.literal(depth)
			for i := range names {
				names[i] += literal
			}
		}
		if len(names[0]) > maxName {
			return nil, errorAt(begin, "the name of a host is longer than %d bytes", maxName)
		}
	}
}

// literal reads the characters of a name up to the next bracket, comma or other character.
func (p *listParser) literal(depth int) string {
	begin := p.offset
	for isHostRune(rune(p.next())) && (depth == 0 || !isNotDigit(rune(p.next()))) {
		p.offset++
	}
	return p.text[begin:p.offset]
}

// brackets reads a list in brackets.
func (p *listParser) brackets(depth int) ([]string, error) {
	open := p.offset
	if depth == maxNesting {
		return nil, errorAt(open, "brackets are nested more than %d times", maxNesting)
	}
	p.offset++
	parts, err := p.list(depth + 1)
	if err != nil {
		return nil, err
	}
	if p.next() != ']' {
		return nil, errorAt(open, "this bracket is not closed")
	}
	p.offset++
	return parts, nil
}

// numbers reads a number or a range of numbers.
func (p *listParser) numbers() ([]string, error) {
	begin := p.offset
	rest := p.text[begin:]
	word := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789-"))]
	first, last, isRange := strings.Cut(word, "-")
	if !isRange {
		last = first
	}
	low, errLow := parseDigits(first)
	high, errHigh := parseDigits(last)
	switch {
	case errLow != nil || errHigh != nil:
		return nil, errorAt(begin, "%q is not a number or a range such as 01-16", word)
	case low > high:
		return nil, errorAt(begin, "the range %s goes backwards", word)
	case high-low >= maxHosts:
		return nil, errorAt(begin, "there are more than %d hosts", maxHosts)
	}
	p.offset += len(word)
	var names []string
	for n := low; n <= high; n++ {
		digits := strconv.Itoa(n)
		names = append(names, strings.Repeat("0", max(0, len(first)-len(digits)))+digits)
	}
	return names, nil
}

func parseDigits(text string) (int, error) {
	if len(text) > maxDigits || strings.ContainsFunc(text, isNotDigit) {
		return 0, strconv.ErrSyntax
	}
	return strconv.Atoi(text)
}

// ExpandCounts returns the numbers of a list in Slurm's syntax for a number per node: 2(x3),1 means 2, 2, 2 and 1. The error is
// a [*inputfile.SyntaxError].
func ExpandCounts(text string) (counts []int, err error) {
	parts, at := splitList(text)
	for i, part := range parts {
		number, times := part, 1
		if open := strings.Index(part, "(x"); open >= 0 {
			inner, closed := strings.CutSuffix(part[open+2:], ")")
			if times, err = parseDigits(inner); !closed || err != nil || times < 1 {
				return nil, errorAt(at[i]+open, "%q is not a repetition such as (x3)", part[open:])
			}
			number = part[:open]
		}
		n, err := parseDigits(number)
		switch {
		case err != nil || n > maxSlots:
			return nil, errorAt(at[i], "%q is not a number such as 2 or 2(x3)", part)
		case len(counts)+times > maxHosts:
			return nil, errorAt(at[i], "there are more than %d hosts", maxHosts)
		}
		for range times {
			counts = append(counts, n)
		}
	}
	return counts, nil
}
