package tunables

import (
	"cmp"
	"errors"
	"strconv"
	"strings"
	"testing"
)

// row returns the attribute's row of the table in docs/transports.md.
func (a *Attribute) row() string {
	return "| `" + a.Variable + "` | `" + a.Field + "` | " +
		cmp.Or(a.DefaultText, strconv.Itoa(a.Default)) + " | " + a.Meaning + " |"
}

// TestAttributesDocumentation: the table in docs/transports.md is this one, and explains the traffic class.
func TestAttributesDocumentation(t *testing.T) {
	var rows []string
	for _, a := range Attributes() {
		rows = append(rows, a.row())
	}
	if page := checkPage(t, rows); !strings.Contains(page, "## Traffic class of RoCE") || !strings.Contains(page, "106") {
		t.Error("docs/transports.md does not explain the traffic class of RoCE")
	}
}

// TestAttributeFromEnv: a value that the attribute cannot have is an error, which names the variable and what is allowed.
func TestAttributeFromEnv(t *testing.T) {
	for _, c := range []struct {
		a    *Attribute
		good map[string]int
		bad  string
	}{
		{&RDMAGIDIndex, map[string]int{"0": 0, "3": 3, "255": 255}, "256 -1 x 0x"},
		{&RDMAPKey, map[string]int{"0x8001": 0x8001, "0x7fff": 0x7fff, "1": 1}, "0 0x8000 0x10000 8001x"},
		{&RDMAServiceLevel, map[string]int{"0": 0, "15": 15}, "16 high"},
		{&RDMATrafficClass, map[string]int{"0": 0, "106": 106, "0xff": 255}, "256 AF31"},
		{&RDMAMTU, map[string]int{"256": 256, "4096": 4096}, "0 128 1500 8192 4K"},
		{&RDMATimeout, map[string]int{"1": 1, "31": 31}, "0 32 67ms"},
		{&RDMARetries, map[string]int{"1": 1, "7": 7}, "0 8"},
		{&RDMARNRRetries, map[string]int{"1": 1, "7": 7}, "0 8"},
	} {
		for text, want := range c.good {
			if n, set, err := c.a.FromEnv(func(string) string { return text }); n != want || !set || err != nil {
				t.Errorf("%s=%s: %d, %v, %v", c.a.Variable, text, n, set, err)
			}
			if err := c.a.Check(want); err != nil {
				t.Error(err)
			}
		}
		for _, text := range strings.Fields(c.bad) {
			_, _, err := c.a.FromEnv(func(string) string { return text })
			if !errors.Is(err, ErrAttribute) || !strings.Contains(err.Error(), c.a.Variable+"="+strconv.Quote(text)) ||
				!strings.Contains(err.Error(), c.a.Want) {
				t.Errorf("%s=%s: %v", c.a.Variable, text, err)
			}
		}
		if n, set, err := c.a.FromEnv(func(string) string { return "" }); n != 0 || set || err != nil {
			t.Errorf("%s is not set: %d, %v, %v", c.a.Variable, n, set, err)
		}
	}
	if err := RDMAMTU.Check(1500); !errors.Is(err, ErrAttribute) || !strings.Contains(err.Error(), "rdma.Settings.MTU") {
		t.Errorf("an MTU of 1500: %v", err)
	}
}
