package cli

import "strings"

// Lookup returns a function like os.Getenv for an environment of the form NAME=VALUE. If a variable is set twice, the last value
// wins.
func Lookup(env []string) func(string) string {
	values := map[string]string{}
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		values[name] = value
	}
	return func(name string) string { return values[name] }
}
