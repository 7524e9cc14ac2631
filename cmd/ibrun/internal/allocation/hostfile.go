package allocation

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/inputfile"
)

// maxFileSize bounds the size of a host file.
const maxFileSize = 16 << 20

// fromFiles returns the hosts of all host files.
func fromFiles(names []string, source, thisHost string) (*Allocation, error) {
	var all []Host
	var allNotes []string
	for _, name := range names {
		text, err := inputfile.Read(name, maxFileSize)
		if err != nil {
			return nil, fmt.Errorf("read the host file: %w", err)
		}
		hosts, notes, err := ParseHostFile(name, text)
		if err != nil {
			return nil, err
		}
		all, allNotes = append(all, hosts...), append(allNotes, notes...)
	}
	return newAllocation(source, all, allNotes, thisHost)
}

// ParseHostFile parses a host file. Its lines have the syntax of Open MPI, of MPICH or of MVAPICH:
//
//	n1 slots=4 max_slots=8     # Open MPI
//	user@n2 slots=4
//	n3:4 user=me binding=core  # MPICH
//	n4                         # a line for each rank, or without a number if it has one line
//	n5:4:mlx5_0                # MVAPICH, with a device
//
// Notes name what has no effect here. The error is a [*inputfile.SyntaxError].
func ParseHostFile(name, text string) (hosts []Host, notes []string, err error) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		line, _, _ = strings.Cut(strings.TrimRight(line, "\r\n"), "#")
		words, err := hostFileWords(line)
		if err == nil && len(words) > 0 {
			var h Host
			if h, err = parseHostLine(words, &notes); err == nil && len(hosts) == maxHosts*16 {
				err = errorAt(0, "there are more than %d lines with hosts", maxHosts*16)
			}
			hosts = append(hosts, h)
		}
		if e, ok := err.(*inputfile.SyntaxError); ok {
			e.Source, e.Line = name, number
			return nil, nil, e
		}
	}
	return hosts, notes, nil
}

// fileWord is a word of a host file, with its value if "=" follows it.
type fileWord struct {
	text, value string
	hasValue    bool
	at, valueAt int // bytes of the line
}

// hostFileWords splits a line into words. There may be blanks around "=".
func hostFileWords(line string) (words []fileWord, err error) {
	at := 0
	skip := func() { at = len(line) - len(strings.TrimLeft(line[at:], " \t\v\f")) }
	word := func(stop string) string {
		begin := at
		if i := strings.IndexAny(line[at:], stop); i >= 0 {
			at += i
		} else {
			at = len(line)
		}
		return line[begin:at]
	}
	for skip(); at < len(line); skip() {
		w := fileWord{at: at}
		if w.text = word(" \t\v\f="); w.text == "" {
			return nil, errorAt(at, "there is no name before =")
		}
		skip()
		if at < len(line) && line[at] == '=' {
			at++
			skip()
			w.valueAt, w.hasValue = at, true
			if w.value = word(" \t\v\f"); w.value == "" {
				return nil, errorAt(at, "%s= has no value", w.text)
			}
		}
		words = append(words, w)
	}
	return words, nil
}

// parseHostLine parses the words of a line.
func parseHostLine(words []fileWord, notes *[]string) (Host, error) {
	first := words[0]
	if first.hasValue {
		return Host{}, errorAt(first.at, "a line begins with the name of a host, not with %s=", first.text)
	}
	h, err := parseFileHost(first, notes)
	if err != nil {
		return h, err
	}
	for _, w := range words[1:] {
		if err := h.set(w, notes); err != nil {
			return h, err
		}
	}
	if h.MaxSlots > 0 && h.MaxSlots < h.Slots {
		return h, errorAt(first.at, "host %s has %d slots, which are more than its max_slots=%d", h.Name, h.Slots, h.MaxSlots)
	}
	return h, nil
}

// parseFileHost parses [USER@]HOST[:SLOTS[:DEVICE]].
func parseFileHost(w fileWord, notes *[]string) (Host, error) {
	switch w.text[0] {
	case '+':
		return Host{}, errorAt(w.at, "%s counts the hosts of an allocation; write the names of the hosts", w.text)
	case '^':
		return Host{}, errorAt(w.at, "%s excludes a host; leave out the line, and the lines of this host", w.text)
	}
	text := w.text
	if parts := strings.Split(text, ":"); len(parts) == 3 && parts[1] != "" { // an IPv6 address with two colons has "::"
		addNote(notes, "devices in a host file have no effect: ranks choose those near them, see docs/affinity.md")
		text = parts[0] + ":" + parts[1]
	}
	list, err := parseEntry(text, w.at)
	switch {
	case err != nil:
		return Host{}, err
	case len(list) != 1:
		return Host{}, errorAt(w.at, "a line has one host: %s means %d", w.text, len(list))
	}
	return list[0], nil
}

// set applies a word after the host.
func (h *Host) set(w fileWord, notes *[]string) (err error) {
	name := strings.ReplaceAll(strings.ToLower(w.text), "-", "_")
	switch {
	case !w.hasValue:
		return errorAt(w.at, "unexpected %q after the host: want slots=N, max_slots=N or user=NAME", w.text)
	case name == "slots" || name == "slot" || name == "count" || name == "cpus":
		h.Slots, err = parseSlots(w.value, w.valueAt)
	case name == "max_slots" || name == "slots_max" || name == "max":
		h.MaxSlots, err = parseSlots(w.value, w.valueAt)
	case name == "user" || name == "username" || name == "user_name":
		if err = checkUser(w.value, w.valueAt); err == nil {
			h.User = w.value
		}
	case name == "binding":
		addNote(notes, "binding= in a host file has no effect: choose with --bind-to or --rank-file")
	case name == "ifname":
		addNote(notes, "ifname= in a host file has no effect: choose with --tcp-interfaces")
	default:
		return errorAt(w.at, "unknown word %s=: want slots=N, max_slots=N or user=NAME", w.text)
	}
	return err
}

func addNote(notes *[]string, note string) {
	if !slices.Contains(*notes, note) {
		*notes = append(*notes, note)
	}
}
