package allocation

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/inputfile"
)

// errorAt returns an error at a byte of a text without lines.
func errorAt(offset int, format string, args ...any) error {
	return &inputfile.SyntaxError{Column: offset + 1, Message: fmt.Sprintf(format, args...)}
}

// splitList splits a list at the commas that are not in brackets. It returns where each part begins.
func splitList(text string) (parts []string, at []int) {
	depth, begin := 0, 0
	for i := range len(text) {
		switch text[i] {
		case '[':
			depth++
		case ']':
			depth--
		case ',':
			if depth <= 0 {
				parts, at = append(parts, text[begin:i]), append(at, begin)
				begin = i + 1
			}
		}
	}
	return append(parts, text[begin:]), append(at, begin)
}

// ParseHosts parses a list of [USER@]HOST[:SLOTS] such as "a,b:4,user@c:2". A host may be a Slurm host list, as in n[1-4]:2, or
// an IPv6 address in brackets. The error is a [*inputfile.SyntaxError].
func ParseHosts(text string) (hosts []Host, err error) {
	parts, at := splitList(text)
	for i, part := range parts {
		trimmed := strings.TrimSpace(part)
		begin := at[i] + strings.Index(part, trimmed)
		list, err := parseEntry(trimmed, begin)
		if err != nil {
			return nil, err
		}
		if len(hosts)+len(list) > maxHosts {
			return nil, errorAt(begin, "there are more than %d hosts", maxHosts)
		}
		hosts = append(hosts, list...)
	}
	return hosts, nil
}

// parseEntry parses one entry of ParseHosts, which begins at this byte of the text.
func parseEntry(text string, begin int) ([]Host, error) {
	host := Host{}
	name, hasUser := text, false
	if host.User, name, hasUser = strings.Cut(text, "@"); !hasUser {
		host.User, name = "", text
	} else if err := checkUser(host.User, begin); err != nil {
		return nil, err
	}
	nameAt := begin + len(text) - len(name)
	name, number, numberAt := cutSlots(name, nameAt)
	if numberAt > 0 {
		n, err := parseSlots(number, numberAt)
		if err != nil {
			return nil, err
		}
		host.Slots = n
	}
	if address, ok := ipv6(name); ok {
		host.Name = address
		return []Host{host}, nil
	}
	names, err := ExpandHostList(name)
	if err != nil {
		if e, ok := err.(*inputfile.SyntaxError); ok {
			e.Column += nameAt
		}
		return nil, err
	}
	hosts := make([]Host, len(names))
	for i, n := range names {
		if err := checkHost(n, nameAt); err != nil {
			return nil, err
		}
		hosts[i] = host
		hosts[i].Name = n
	}
	return hosts, nil
}

// cutSlots cuts ":SLOTS" off a host that begins at this byte. numberAt is where the number begins, or 0 if there is none. A
// name with several colons outside of brackets is an IPv6 address without a number.
func cutSlots(text string, begin int) (name, number string, numberAt int) {
	i := strings.LastIndexByte(text, ':')
	if i < 0 || i < strings.LastIndexByte(text, ']') || text[0] != '[' && strings.Count(text, ":") > 1 {
		return text, "", 0
	}
	return text[:i], text[i+1:], begin + i + 1
}

// ipv6 returns the IPv6 address that a name is, with or without brackets. Only an address may have colons: another name with
// colons could be an option of the program that starts processes.
func ipv6(name string) (string, bool) {
	if inner, ok := strings.CutPrefix(name, "["); ok && strings.HasSuffix(inner, "]") {
		name = strings.TrimSuffix(inner, "]")
	}
	address, err := netip.ParseAddr(name)
	return name, err == nil && address.Is6() &&
		!strings.ContainsFunc(address.Zone(), func(r rune) bool { return !isHostRune(r) })
}

func parseSlots(text string, at int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxSlots || text[0] == '+' {
		return 0, errorAt(at, "%q is not a number of slots from 1 to %d", text, maxSlots)
	}
	return n, nil
}

// checkHost returns an error for a name that no host has. Such a name could be an option of the program that starts
// processes.
func checkHost(name string, at int) error {
	switch {
	case name == "":
		return errorAt(at, "a host has no name")
	case len(name) > maxName:
		return errorAt(at, "the name of a host is longer than %d bytes", maxName)
	case name[0] == '-':
		return errorAt(at, "the name of a host cannot begin with a dash: %q", name)
	}
	if i := strings.IndexFunc(name, func(r rune) bool { return !isHostRune(r) }); i >= 0 {
		return errorAt(at, "the name of a host is letters, digits, dots, dashes and underscores: %q", name)
	}
	return nil
}

func isHostRune(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune(".-_", r)
}

// checkUser returns an error for a name that no user has.
func checkUser(name string, at int) error {
	if name == "" || len(name) > maxName || name[0] == '-' || strings.ContainsFunc(name, func(r rune) bool {
		return !isHostRune(r) && r != '\\' && r != '$' // Windows domains, and accounts of machines there
	}) {
		return errorAt(at, "%q is not the name of a user", name)
	}
	return nil
}
