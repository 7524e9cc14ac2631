package hw

import (
	"fmt"
	"slices"
	"testing"
)

func TestListPrefixes(t *testing.T) {
	const whole = "0-3,8,10-11\n"
	for n := range len(whole) {
		if ids, err := parseList(whole[:n]); err == nil {
			t.Errorf("%q parses as %v, but it is truncated", whole[:n], ids)
		}
	}
	if _, err := parseList(whole); err != nil {
		t.Error(err)
	}
}

func FuzzList(f *testing.F) {
	for _, seed := range []string{"\n", "0\n", "0-3,8\n", "0-3", ",\n", "-\n", "0-8191\n", "8192\n", "1,0\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ids, err := parseList(text)
		if err != nil {
			return
		}
		again, err := parseList(FormatList(ids) + "\n")
		if err != nil || FormatList(again) != FormatList(ids) {
			t.Errorf("%q is %v, written and read again %v, %v", text, ids, again, err)
		}
	})
}

// parsers parse single files. Each has a complete text and its value.
var parsers = []struct {
	name, whole, want string
	parse             func(string) (any, error)
}{
	{"mask", "00000001,0000010f\n", "[0 1 2 3 8 32]", parseAny(parseMask)},
	{"mask of no bits", "00000000,00000000\n", "[]", parseAny(parseMask)},
	{"mask of one word of 64 bits", "8000000000000001\n", "[0 63]", parseAny(parseMask)},
	{"size", "1024K\n", "1048576", parseAny(parseSize)},
	{"memory", "Node 0 MemTotal:  8349904 kB\n", "8550301696", parseAny(parseMemory)},
	{"distances", "10 21\n", "[10 21]", parseAny(parseDistances)},
	{"speed", "32.0 GT/s PCIe\n", "32", parseAny(parseSpeed)},
	{"unknown speed", "Unknown\n", "0", parseAny(parseSpeed)},
	{"width", "16\n", "16", parseAny(parseWidth)},
	{"unknown width", "255\n", "0", parseAny(parseWidth)},
	{"number", "-17\n", "-17", parseAny(parseInt)},
	{"PCI address", "10000:c1:1f.7", "[65536 193 31 7]", func(text string) (any, error) {
		parts, ok := parsePCIAddress(text)
		if !ok {
			return nil, ErrMalformed
		}
		return parts, nil
	}},
}

func TestTopologyTexts(t *testing.T) {
	for _, c := range parsers {
		if v, err := c.parse(c.whole); err != nil || fmt.Sprint(v) != c.want {
			t.Errorf("%s: %q is %v, %v; want %s", c.name, c.whole, v, err, c.want)
		}
	}
	if ids, err := parseMask("3\n\n"); fmt.Sprint(ids) != "[0 1]" || err != nil {
		t.Errorf("a mask that ends in two newlines is %v, %v", ids, err)
	}
	if node, err := parseNumaStatus("Node:   255\nStatus: online\n"); node != 255 || err != nil {
		t.Errorf("the GPU's node is %d, %v; want 255", node, err)
	}
}

func TestTopologyTextPrefixes(t *testing.T) {
	for _, c := range parsers {
		for n := range len(c.whole) {
			if v, err := c.parse(c.whole[:n]); err == nil {
				t.Errorf("%s: %q parses as %v, but it is truncated", c.name, c.whole[:n], v)
			}
		}
	}
	const status = "Node:   255\n"
	for n := range len(status) {
		if node, err := parseNumaStatus(status[:n]); err == nil && node >= 0 {
			t.Errorf("%q parses as node %d, but it is truncated", status[:n], node)
		}
	}
}

func FuzzTopologyTexts(f *testing.F) {
	for i, c := range parsers {
		f.Add(uint8(i), c.whole)
	}
	f.Fuzz(func(t *testing.T, which uint8, text string) {
		c := parsers[int(which)%len(parsers)]
		v, err := c.parse(text)
		if ids, ok := v.([]int); err == nil && ok && c.name != "distances" {
			if !slices.IsSorted(ids) || len(ids) > 0 && (ids[0] < 0 || ids[len(ids)-1] >= maxID) {
				t.Errorf("%s: %q is %v", c.name, text, ids)
			}
		}
		if node, err := parseNumaStatus(text); err != nil && node != -1 {
			t.Errorf("%q is node %d, %v", text, node, err)
		}
	})
}
