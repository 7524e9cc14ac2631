package attrs

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// text is an Info as one line.
func text(i *Info) string {
	var s []string
	for k, v := range i.All() {
		s = append(s, k+"="+v)
	}
	return strings.Join(s, " ")
}

func TestInfo(t *testing.T) {
	var i Info
	for n, p := range []pair{{"b", "1"}, {"a", ""}, {"B", "3"}, {"a", "4"}} {
		if err := i.Set(p.key, p.value); err != nil {
			t.Fatal(n, err)
		}
	}
	d := i.Dup()
	if err := errors.Join(d.Delete("b"), d.Set("b", "5")); err != nil {
		t.Fatal(err)
	}
	if got := text(&i); got != "b=1 a=4 B=3" {
		t.Error(got)
	}
	if got := text(d); got != "a=4 B=3 b=5" {
		t.Error("duplicate:", got)
	}
	if err := d.Delete("c"); !errors.Is(err, ErrInfoNoKey) || d.Len() != 3 {
		t.Errorf("%v, %d keys", err, d.Len())
	}
	for n, want := range []string{"a", "B", "b"} {
		if k, ok := d.Nth(n); !ok || k != want {
			t.Errorf("key %d: %q, %v", n, k, ok)
		}
	}
	for _, n := range []int{-1, 3, 1 << 62} {
		if k, ok := d.Nth(n); ok || k != "" {
			t.Errorf("key %d: %q", n, k)
		}
	}
	if v, ok := i.Get("c"); ok || v != "" {
		t.Errorf("%q, %v", v, ok)
	}
}

func TestInfoLimits(t *testing.T) {
	var i Info
	key, value := strings.Repeat("k", MaxInfoKey), strings.Repeat("v", MaxInfoValue)
	if err := i.Set(key, value); err != nil {
		t.Fatal(err)
	}
	if v, ok := i.Get(key); !ok || v != value {
		t.Errorf("%d bytes, %v", len(v), ok)
	}
	for k, want := range map[pair]error{
		{key + "k", "v"}: ErrInfoKey, {"", "v"}: ErrInfoKey, {"a\x00", "v"}: ErrInfoKey,
		{key, value + "v"}: ErrInfoValue, {"k", "\x00"}: ErrInfoValue,
	} {
		if err := i.Set(k.key, k.value); !errors.Is(err, want) {
			t.Errorf("%.9q=%.9q: %v, want %v", k.key, k.value, err, want)
		}
	}
	if got := text(&i); got != key+"="+value {
		t.Error("a call that failed changed it:", got)
	}
}

func TestInfoGoroutines(t *testing.T) {
	var i Info
	var all sync.WaitGroup
	for g := range 16 {
		all.Go(func() {
			k := fmt.Sprint(g)
			for range 100 {
				err := errors.Join(i.Set(k, k), i.Delete(k), i.Set(k, k))
				if v, ok := i.Get(k); err != nil || v != k || !ok || i.Dup().Len() > 16 {
					t.Errorf("%q: %q, %v, %v", k, v, ok, err)
				}
			}
		})
	}
	all.Wait()
	if i.Len() != 16 {
		t.Error(text(&i))
	}
}
