package tunables

import (
	"cmp"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
)

// row returns the tunable's row of the table in docs/transports.md.
func (t *Tunable) row() string {
	threshold := ""
	if t.Threshold != "" {
		threshold = "`" + t.Threshold + "` "
	}
	return "| `" + t.Variable + "` | " + threshold + "| `" + t.Field + "` | " +
		cmp.Or(t.DefaultText, strconv.Itoa(t.Default)) + " | " + t.Meaning + " |"
}

// TestDocumentation: the table in docs/transports.md is this one.
func TestDocumentation(t *testing.T) {
	var rows []string
	for _, tunable := range All() {
		rows = append(rows, tunable.row())
	}
	checkPage(t, rows)
}

// checkPage checks that docs/transports.md contains a table of these rows, and returns the page.
func checkPage(t *testing.T, rows []string) (page string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/transports.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Join(rows, "\n") + "\n"; !strings.Contains(string(text), want) {
		t.Errorf("docs/transports.md does not contain these rows:\n%s", want)
	}
	return string(text)
}

func TestUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, tunable := range All() {
		for _, name := range []string{tunable.Variable, tunable.Field, tunable.Transport.String() + " " + tunable.Name} {
			if seen[name] {
				t.Errorf("%s is in two tunables", name)
			}
			seen[name] = true
		}
		if d := tunable.Default; d < tunable.Min || d > tunable.Max || d == 0 && tunable.DefaultText == "" {
			t.Errorf("the default of %s is %d", tunable.Variable, d)
		}
	}
}

func TestBounds(t *testing.T) {
	get := func(text string) func(string) string { return func(string) string { return text } }
	for text, want := range map[string]int{"": 0, "512": 512, "1048576": 1048576} {
		if got, err := RDMASlot.FromEnv(get(text)); got != want || err != nil {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"0", "511", "1048577", "-1", "5K"} {
		_, err := RDMASlot.FromEnv(get(text))
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "IBRUN_RDMA_SLOT="+strconv.Quote(text)) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for n, valid := range map[int]bool{-1: false, 0: true, 1: true, 131072: true, 131073: false} {
		if err := TCPEager.CheckThreshold(n); (err == nil) != valid {
			t.Errorf("threshold %d: %v", n, err)
		}
	}
}
