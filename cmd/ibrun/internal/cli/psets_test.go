package cli

import (
	"fmt"
	"strings"
	"testing"
)

func TestPsets(t *testing.T) {
	nothing := LookupEnv(nil)
	o, err := Parse([]string{"-n", "9", "--pset", "a=b =0-3,8", "--pset", "Ä/1=1", "prog"}, nothing)
	if err != nil || fmt.Sprint(o.Psets) != "[{a=b  0-3,8} {Ä/1 1}]" {
		t.Errorf("%v, %v", o, err)
	}
	for value, want := range map[string]string{
		"":                               "want a name",
		"ocean":                          "want a name",
		"=1":                             "want a name",
		"ocean=":                         "invalid size",
		"ocean=3-1":                      "backwards",
		"mpi://X=1":                      "are reserved",
		"ibrun://rail/0=1":               "are reserved",
		"a\xff=1":                        "UTF-8",
		"a\x00=1":                        "without NUL",
		"x=1":                            "already",
		strings.Repeat("y", 1024) + "=1": "at most 1023 bytes",
	} {
		_, err := Parse([]string{"--pset", "x=0", "--pset", value, "prog"}, nothing)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", value, err, want)
		}
	}
}
