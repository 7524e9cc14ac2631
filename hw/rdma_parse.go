package hw

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// The functions below parse the texts of single sysfs files. Each text ends in a newline, which proves that it is complete.

// GUID is a 64-bit identifier, read as a big-endian number. Its text has the kernel's form: 0002:c903:00a1:b2c4.
type GUID uint64

// String writes the GUID as the kernel does.
func (g GUID) String() string {
	return fmt.Sprintf("%04x:%04x:%04x:%04x", uint16(g>>48), uint16(g>>32), uint16(g>>16), uint16(g))
}

// MarshalText returns the text of String, for JSON.
func (g GUID) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText parses the text of String.
func (g *GUID) UnmarshalText(text []byte) error {
	var err error
	*g, err = parseGUID(string(text) + "\n")
	return err
}

// parseGUID parses 0002:c903:00a1:b2c4.
func parseGUID(text string) (GUID, error) {
	var raw [8]byte
	if err := parseGroups(raw[:], text); err != nil {
		return 0, err
	}
	var g GUID
	for _, b := range raw {
		g = g<<8 | GUID(b)
	}
	return g, nil
}

// parseGID parses fe80:0000:0000:0000:5054:00ff:fe12:3456.
func parseGID(text string) (netip.Addr, error) {
	if text == noGID { // most entries of a table of hundreds
		return netip.IPv6Unspecified(), nil
	}
	var raw [16]byte
	if err := parseGroups(raw[:], text); err != nil {
		return netip.Addr{}, err
	}
	return netip.AddrFrom16(raw), nil
}

const noGID = "0000:0000:0000:0000:0000:0000:0000:0000\n"

// parseGroups fills raw from groups of four hexadecimal digits separated by colons.
func parseGroups(raw []byte, text string) error {
	body, whole := strings.CutSuffix(text, "\n")
	if !whole || len(body) != len(raw)/2*5-1 {
		return malformed("identifier", text)
	}
	for i := 0; i < len(raw); i += 2 {
		at := i / 2 * 5
		if _, err := hex.Decode(raw[i:i+2], []byte(body[at:at+4])); err != nil || at > 0 && body[at-1] != ':' {
			return malformed("identifier", text)
		}
	}
	return nil
}

// parseWord parses one line of any text.
func parseWord(text string) (string, error) {
	body, whole := strings.CutSuffix(text, "\n")
	if !whole || strings.Contains(body, "\n") {
		return "", malformed("line", text)
	}
	return body, nil
}

// parseNumbered parses a number and its name: "4: ACTIVE".
func parseNumbered(text string) (int, string, error) {
	body, whole := strings.CutSuffix(text, "\n")
	number, name, found := strings.Cut(body, ": ")
	n, err := strconv.ParseUint(number, 10, 8)
	if !whole || !found || name == "" || err != nil {
		return 0, "", malformed("state", text)
	}
	return int(n), name, nil
}

// parseRate parses "100 Gb/sec (4X EDR)", or "10 Gb/sec (4X)" without the name of the speed, and returns bits per
// second.
func parseRate(text string) (uint64, error) {
	number, link, _ := strings.Cut(text, " Gb/sec (")
	giga, tenth, _ := strings.Cut(number, ".")
	tenths, err := strconv.ParseUint(giga+cmp.Or(tenth, "0"), 10, 32)
	width, _, _ := strings.Cut(link, "X")
	_, errWidth := strconv.ParseUint(width, 10, 8)
	if err != nil || errWidth != nil || giga == "" || len(tenth) > 1 || !strings.HasSuffix(link, ")\n") {
		return 0, malformed("rate", text)
	}
	return tenths * 100_000_000, nil
}

// parseUint parses a number of at most bits bits, decimal, or hexadecimal with the prefix 0x.
func parseUint(text string, bits int) (uint64, error) {
	body, whole := strings.CutSuffix(text, "\n")
	base := 10
	if digits, isHex := strings.CutPrefix(body, "0x"); isHex {
		body, base = digits, 16
	}
	n, err := strconv.ParseUint(body, base, bits)
	if !whole || err != nil {
		return 0, malformed("number", text)
	}
	return n, nil
}

// parseInt parses a decimal number that may be negative.
func parseInt(text string) (int, error) {
	body, whole := strings.CutSuffix(text, "\n")
	n, err := strconv.ParseInt(body, 10, 32)
	if !whole || err != nil {
		return 0, malformed("number", text)
	}
	return int(n), nil
}

// parseDev parses the number of a device file, major:minor.
func parseDev(text string) (major, minor uint32, err error) {
	body, whole := strings.CutSuffix(text, "\n")
	first, second, found := strings.Cut(body, ":")
	hi, errHi := strconv.ParseUint(first, 10, 32)
	lo, errLo := strconv.ParseUint(second, 10, 32)
	if !whole || !found || errHi != nil || errLo != nil {
		return 0, 0, malformed("device number", text)
	}
	return uint32(hi), uint32(lo), nil
}

// malformed returns an ErrMalformed with the start of the text.
func malformed(what, text string) error {
	return fmt.Errorf("%w: %s %.60q", ErrMalformed, what, text)
}
