package hw

import "testing"

func TestListPrefixes(t *testing.T) {
	const whole = "0-3,8,10-11\n"
	for n := range len(whole) {
		if ids, err := parseList(whole[:n]); err == nil {
			t.Errorf("%q was taken for %v, but it is cut short", whole[:n], ids)
		}
	}
	if _, err := parseList(whole); err != nil {
		t.Error(err)
	}
}

func FuzzList(f *testing.F) {
	for _, seed := range []string{"\n", "0\n", "0-3,8\n", "0-3", ",\n", "-\n", "0-65535\n", "65536\n", "1,0\n"} {
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
