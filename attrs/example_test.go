package attrs_test

import (
	"fmt"

	"github.com/ibrun/ibrun/attrs"
)

// window is a type of owners of attributes.
type window struct{ attrs attrs.Cache[*window] }

func Example() {
	var space attrs.Space[*window] // the keys for all windows
	w := &window{}
	w.attrs.Init(&space, w)

	title := attrs.NewKeyval[*window, string](&space, nil, nil)
	if err := title.Set(&w.attrs, "main"); err != nil {
		fmt.Println(err)
	}
	text, ok, err := title.Get(&w.attrs)
	fmt.Println(text, ok, err)

	depth := attrs.NewKeyval[*window, int](&space, nil, nil)
	n, ok, err := depth.Get(&w.attrs)
	fmt.Println(n, ok, err)
	// Output:
	// main true <nil>
	// 0 false <nil>
}

// Callbacks of a key copy its values when their owner is duplicated, and run when they are deleted.
func ExampleCache_Copy() {
	var space attrs.Space[*window]
	first, second := &window{}, &window{}
	first.attrs.Init(&space, first)
	second.attrs.Init(&space, second)

	generation := attrs.NewKeyval(&space,
		func(_ *window, n int) (int, bool, error) { return n + 1, true, nil },
		func(_ *window, n int) error {
			fmt.Println("generation", n, "goes")
			return nil
		})
	err := generation.Set(&first.attrs, 1)
	fmt.Println(err, first.attrs.Copy(&second.attrs))
	fmt.Println(second.attrs.Clear(), first.attrs.Clear())
	// Output:
	// <nil> <nil>
	// generation 2 goes
	// generation 1 goes
	// <nil> <nil>
}

func ExampleInfo() {
	var info attrs.Info
	for _, hint := range [][2]string{{"host", "n0"}, {"path", "/scratch"}, {"host", "n1"}} {
		if err := info.Set(hint[0], hint[1]); err != nil {
			fmt.Println(err)
		}
	}
	for key, value := range info.All() { // in the order in which they were first set
		fmt.Println(key, "=", value)
	}
	// Output:
	// host = n1
	// path = /scratch
}
