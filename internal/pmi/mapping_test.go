package pmi

import (
	"slices"
	"testing"
)

func TestParseMapping(t *testing.T) {
	for _, test := range []struct {
		text string
		want []int
	}{
		{"(vector,(0,1,1))", []int{0}},
		{"(vector,(0,1,4))", []int{0, 0, 0, 0}},
		{"(vector,(0,2,2))", []int{0, 0, 1, 1}},
		{"(vector,(0,2,1),(0,2,1))", []int{0, 1, 0, 1}},
		{"(vector,(0,2,2),(2,1,3))", []int{0, 0, 1, 1, 2, 2, 2}},
		{"(vector,(0,4,1),(0,4,1),(2,2,1),(2,2,1))", []int{0, 1, 2, 3, 0, 1, 2, 3, 2, 3, 2, 3}},
		{"(vector,(0,2,1))", []int{0, 1, 0, 1, 0}},                  // continued from the start
		{"(vector,(2,1,1),(0,3,1))", []int{2, 0, 1, 2, 0, 1, 2, 0}}, // continued from its first block on node 0
		{"(vector,(3,1,2))", []int{3, 3, 3}},                        // continued from the start if there is none
		{"(vector,(0,100,100))", []int{0, 0}},                       // more than size
		{"(vector,3,0,0)", []int{3, 0, 0}},
		{"(vector,[(0,2,1)]x2,5)", []int{0, 1, 0, 1, 5}},
		{"(vector,[0,(1,1,2)]x1000000000)", []int{0, 1, 1, 0, 1}},
		{"(vector,[7]x1,1)", []int{7, 1, 7}},
		{"(vector)", []int{}},
	} {
		got, err := parseMapping(test.text, len(test.want))
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, %v; want %v", test.text, got, err, test.want)
		}
	}
}

func TestParseMappingRefuses(t *testing.T) {
	for _, text := range []string{
		"", "(", "vector", "(vector", "(vector)", "(vector,)", "(vector,(0,1,1)", "(vector,(0,1,1)))", "(vector,(0,1,1),)",
		"(vector,(0,1))", "(vector,(0,1,1,1))", "(vector,(-1,1,1))", "(vector,(0,0,0))", "(vector,(0,1,0))",
		"(vector,(99999999999999999999,1,1))", "(vector,(1073741824,1,1))", "(vector,[(0,1,1))", "(vector,[(0,1,1)]x)",
		"(vector,(1,1,1),(0,0,0))", "(vector,[7]x0,1)", "(matrix,(0,1,1))", "(vector,(0,1,1)) ", "(vectors,(0,1,1))",
		"(vector,[(0,1,1)]x2147483648)",
	} {
		if got, err := parseMapping(text, 4); err == nil {
			t.Errorf("%s: no error but %v", text, got)
		}
	}
}

func FuzzParseMapping(f *testing.F) {
	f.Add("(vector,(0,2,2),(2,1,3))", 9)
	f.Add("(vector,[(0,2,1),4]x3,1)", 20)
	f.Add("(vector,(1073741823,1073741823,1073741823))", 3)
	f.Fuzz(func(t *testing.T, text string, size int) {
		if size < 0 || size > 1000 {
			return
		}
		nodes, err := parseMapping(text, size)
		if err == nil && len(nodes) != size {
			t.Fatalf("%d nodes for %d ranks", len(nodes), size)
		}
		for _, node := range nodes {
			if node < 0 {
				t.Fatalf("node %d", node)
			}
		}
	})
}
