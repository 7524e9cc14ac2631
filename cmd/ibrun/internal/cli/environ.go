package cli

import "strings"

// LookupFunc is a function like os.LookupEnv.
type LookupFunc func(name string) (value string, set bool)

// LookupEnv returns a function like os.LookupEnv for an environment of the form NAME=VALUE. If a variable is set twice, the last
// value wins.
func LookupEnv(env []string) LookupFunc {
	values := map[string]string{}
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		values[name] = value
	}
	return func(name string) (string, bool) {
		value, set := values[name]
		return value, set
	}
}

// Lookup is like LookupEnv, and returns a function like os.Getenv.
func Lookup(env []string) func(string) string {
	lookup := LookupEnv(env)
	return func(name string) string {
		value, _ := lookup(name)
		return value
	}
}
