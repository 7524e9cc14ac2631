package hw

import (
	"fmt"
	"testing"
)

// texts are parsers of single files by name. Each has a complete text and its value.
var texts = []struct {
	name, whole, want string
	parse             func(string) (any, error)
}{
	{"GID", "fe80:0000:0000:0000:5054:00ff:fe12:3456\n", "fe80::5054:ff:fe12:3456", parseAny(parseGID)},
	{"mapped GID", "0000:0000:0000:0000:0000:ffff:0a00:0001\n", "::ffff:10.0.0.1", parseAny(parseGID)},
	{"GUID", "0002:c903:00a1:b2c4\n", "0002:c903:00a1:b2c4", parseAny(parseGUID)},
	{"GUID as JSON", "0002:c903:00a1:b2c4\n", "0002:c903:00a1:b2c4", func(text string) (any, error) {
		var g GUID
		if len(text) > 0 {
			text = text[:len(text)-1]
		}
		err := g.UnmarshalText([]byte(text))
		return g, err
	}},
	{"rate", "100 Gb/sec (4X EDR)\n", "100000000000", parseAny(parseRate)},
	{"rate with a fraction", "2.5 Gb/sec (1X SDR)\n", "2500000000", parseAny(parseRate)},
	{"rate without speed", "10 Gb/sec (4X)\n", "10000000000", parseAny(parseRate)},
	{"FDR10", "40 Gb/sec (4X FDR10)\n", "40000000000", parseAny(parseRate)},
	{"state", "4: ACTIVE\n", "ACTIVE", parseAny(parseStateName)},
	{"phys state", "7: Phy Test\n", "Phy Test", parseAny(parseStateName)},
	{"node type", "1: CA\n", "CA", parseAny(parseNodeType)},
	{"node type without name", "7: <unknown>\n", "unspecified", parseAny(parseNodeType)},
	{"link layer", "Ethernet\n", "Ethernet", parseAny(parseLinkLayer)},
	{"word", "22.36.1010\n", "22.36.1010", parseAny(parseWord)},
	{"device number", "231:192\n", "[231 192]", func(text string) (any, error) {
		major, minor, err := parseDev(text)
		return []uint32{major, minor}, err
	}},
	{"number", "18446744073709551615\n", "18446744073709551615", parseUint64},
	{"hexadecimal number", "0xa751e848\n", "2807162952", parseUint64},
}

func parseUint64(text string) (any, error) { return parseUint(text, 64) }

func parseAny[T any](parse func(string) (T, error)) func(string) (any, error) {
	return func(text string) (any, error) { return parse(text) }
}

func TestRDMATexts(t *testing.T) {
	for _, c := range texts {
		if v, err := c.parse(c.whole); err != nil || fmt.Sprint(v) != c.want {
			t.Errorf("%s: %q is %v, %v; want %s", c.name, c.whole, v, err, c.want)
		}
	}
}

func TestRDMATextPrefixes(t *testing.T) {
	for _, c := range texts {
		for n := range len(c.whole) {
			if v, err := c.parse(c.whole[:n]); err == nil {
				t.Errorf("%s: %q parses as %v, but it is truncated", c.name, c.whole[:n], v)
			}
		}
	}
}

func TestRDMATextsRefused(t *testing.T) {
	for _, c := range []struct {
		parse func(string) (any, error)
		text  string
	}{
		{parseAny(parseGID), "fe80::1\n"},
		{parseAny(parseGID), "fe80:0000:0000:0000:5054:00ff:fe12-3456\n"},
		{parseAny(parseGID), "fe80:0000:0000:0000:5054:00ff:fe12:345g\n"},
		{parseAny(parseGUID), "0002:c903:00a1:b2c4:0000\n"},
		{parseAny(parseRate), "1e3 Gb/sec (4X EDR)\n"},
		{parseAny(parseRate), "-1 Gb/sec (4X EDR)\n"},
		{parseAny(parseRate), "429496730 Gb/sec (4X EDR)\n"},
		{parseAny(parseStateName), "ACTIVE\n"},
		{parseAny(parseStateName), "256: ACTIVE\n"},
		{parseAny(parseNodeType), "0: CA\n"},
		{parseAny(parseNodeType), "8: CA\n"},
		{parseAny(parseLinkLayer), "Wireless\n"},
		{parseAny(parseWord), "two\nlines\n"},
		{parseUint64, "18446744073709551616\n"},
		{parseUint64, "-1\n"},
		{parseUint64, "0x\n"},
	} {
		if v, err := c.parse(c.text); err == nil {
			t.Errorf("%q was accepted as %v", c.text, v)
		}
	}
}

func FuzzRDMATexts(f *testing.F) {
	for i, c := range texts {
		f.Add(uint8(i), c.whole)
	}
	f.Fuzz(func(t *testing.T, which uint8, text string) {
		c := texts[int(which)%len(texts)]
		v, err := c.parse(text)
		if err != nil {
			return
		}
		if fmt.Sprint(v) == "" && text != "\n" {
			t.Errorf("%s: %q parses as the empty value", c.name, text)
		}
		if g, ok := v.(GUID); ok {
			if again, err := parseGUID(g.String() + "\n"); err != nil || again != g {
				t.Errorf("%q is %v, written and read again %v, %v", text, g, again, err)
			}
		}
	})
}
