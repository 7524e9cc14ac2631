package cli

import "github.com/ibrun/ibrun/internal/transports"

// List is a flag.Value that is a list. If the flag is given several times, its lists are joined.
type List struct {
	clear func()
	add   func(string) error
	text  func() string
	given bool // otherwise the value is a default
}

// WordList returns a List that is a text with commas between the words.
func WordList(to *string) *List {
	l := &List{clear: func() { *to = "" }, text: func() string { return *to }}
	l.add = func(s string) error {
		*to = joinLists(*to, s)
		return nil
	}
	return l
}

// joinLists adds a list to another one. The word for all transports is not a list: the later one counts.
func joinLists(list, more string) string {
	if list == "" || list == transports.Auto || more == transports.Auto {
		return more
	}
	return list + "," + more
}

// NumberList returns a List of numbers.
func NumberList(to *Ranges) *List {
	return &List{clear: func() { *to = nil }, add: to.Set, text: func() string { return to.String() }}
}

// Set adds a list. The first one replaces the default.
func (l *List) Set(s string) error {
	if !l.given {
		l.clear()
	}
	err := l.add(s)
	l.given = true
	return err
}

// MakeDefault makes the value a default.
func (l *List) MakeDefault() { l.given = false }

// String returns the list.
func (l *List) String() string {
	if l.text == nil { // package flag calls it on a zero value
		return ""
	}
	return l.text()
}
