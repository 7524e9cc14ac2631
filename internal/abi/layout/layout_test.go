package layout

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ibrun/ibrun/internal/needtest"
)

// TestBites runs the comparison on small packages, of which some agree with testdata/two.h and some do not, in one place each.
func TestBites(t *testing.T) {
	const (
		head  = "package p\n\n"
		right = head + "// Two is struct two.\ntype Two struct {\n" +
			"A uint32 // a: in some unit\n B uint8 // b\n _ [3]byte\n C uint64 // c\n U uint64 // u\n}\n" +
			"// Arm is u.arm of struct two.\ntype Arm struct {\nD uint32 // d\n}\n" +
			"// Start is the head of struct two, up to c.\ntype Start struct {\nA uint32 // a\n}\n" +
			"// F is a flag.\nconst F = 1 << 1 // TWO_FLAG: of two\nconst inner = 7\n" +
			"// S is a name.\nconst S = \"two\" // TWO_NAME: of two\n"
		begin = "// Begin is the start of struct two.\ntype Begin struct {\nA uint32 // a\n"
	)
	swap := func(old, new string) string { return strings.Replace(right, old, new, 1) }
	for name, test := range map[string]struct{ src, want string }{
		"agrees":               {right, ""},
		"another size":         {swap("U uint64 // u", "U uint64 // u\n _ uint64"), "Two: size: 32 in Go"},
		"another offset":       {swap("B uint8 // b\n _ [3]byte", "_ [3]byte\n B uint8 // b"), "Two.B: offset: 7 in Go"},
		"another width":        {swap("B uint8 // b\n _ [3]byte", "B uint32 // b"), "Two.B: size: 4 in Go"},
		"another value":        {swap("1 << 1", "1 << 2"), "F: 4 in Go, but TWO_FLAG is 2"},
		"another string":       {swap(`"two"`, `"too"`), "S: 0 in Go, but strcmp(TWO_NAME"},
		"another arm":          {swap("D uint32", "D uint64"), "Arm: size: 8 in Go"},
		"a head over its end":  {swap("A uint32 // a\n}\n// F", "A uint32 // a\n_ [8]byte\n}\n// F"), "Start: size: 12"},
		"a start":              {swap("// F is", begin+"}\n// F is"), ""},
		"a start over the end": {swap("// F is", begin+"_ [28]byte\n}\n// F is"), "Begin: size: 32"},
		"silent padding":       {swap(" _ [3]byte\n", ""), "3 bytes of padding before C"},
		"padding at the end":   {swap("U uint64 // u", "U uint64 // u\n V uint8 // b"), "7 bytes of padding at the end"},
		"a nameless struct":    {swap("Two is struct two", "Two is a pair"), "which struct of C"},
		"a nameless field":     {swap("// a: in some unit", ""), "Two.A does not say its name"},
		"a nameless constant":  {swap("// TWO_FLAG: of two", ""), "constant F does not say its name"},
		"two fields in one":    {swap("C uint64 // c\n U uint64 // u", "C, U uint64 // c"), "Two.C does not say its name"},
	} {
		t.Run(name, func(t *testing.T) {
			src, err := load(fstest.MapFS{"p.go": &fstest.MapFile{Data: []byte(test.src)}})
			if err != nil {
				t.Fatal(err)
			}
			claims, breaches := src.claims()
			if len(breaches) == 0 {
				breaches = twoHeader(t).breaches(t, claims)
			}
			found := strings.Join(breaches, "\n")
			if test.want == "" && found != "" || !strings.Contains(found, test.want) {
				t.Errorf("got %q, want %q", found, test.want)
			}
		})
	}
}

func twoHeader(t *testing.T) compiler {
	c := compiler{dir: t.TempDir(), headers: []string{"two.h"}, flags: []string{"-Itestdata"}}
	if err := c.works(); err != nil {
		needtest.Missing(t, "%v", err)
	}
	return c
}

func (c compiler) breaches(t *testing.T, claims []claim) []string {
	b, err := c.compare(claims)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestNoHeader says what to install.
func TestNoHeader(t *testing.T) {
	twoHeader(t)
	c := compiler{dir: t.TempDir(), headers: []string{"no/such.h"}}
	for _, want := range []string{"apt-get install", "no/such.h"} {
		if err := c.works(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}
