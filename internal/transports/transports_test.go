package transports

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestNumbers: package perf's pages hold these numbers, so they must not change.
func TestNumbers(t *testing.T) {
	for number, want := range []Transport{Other, Mem, Shm, TCP, RDMA} {
		if want != Transport(number) {
			t.Errorf("%s has the number %d, want %d", want, want, number)
		}
	}
}

func TestNames(t *testing.T) {
	for i := range Count {
		if i.String() == "" || i.Description() == "" {
			t.Errorf("transport %d has the name %q and the description %q", uint8(i), i, i.Description())
		}
		if got := Named(i.String()); got != i {
			t.Errorf("Named(%q) = %v", i, got)
		}
	}
	if got := Count.String(); got != "Transport(5)" || Count.Description() != "" {
		t.Errorf("beyond the table: %q", got)
	}
	for _, name := range []string{"", "Shm", Auto} {
		if got := Named(name); got != Other {
			t.Errorf("Named(%q) = %v, want Other", name, got)
		}
	}
}

func TestParseList(t *testing.T) {
	for list, want := range map[string][]string{
		"": nil, Auto: nil, "tcp": {"tcp"}, "shm,tcp": {"shm", "tcp"}, strings.Join(SelectableNames(), ","): SelectableNames(),
	} {
		if got, err := ParseList(list); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v", list, got, err)
		}
	}
	for _, list := range []string{"tpc", "shm,", ",", "mem", "other", "shm,auto"} {
		if _, err := ParseList(list); !errors.Is(err, ErrUnknown) {
			t.Errorf("%q: %v", list, err)
		}
	}
}
