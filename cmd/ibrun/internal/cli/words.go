package cli

import (
	"errors"
	"fmt"
	"strings"
)

// splitCommand splits the command of a launch agent into words. Quotes and backslashes have the meaning that they have in a
// shell.
func splitCommand(text string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord, quote := false, rune(0)
	escaped := false
	for _, r := range text {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			inWord, escaped = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			inWord, quote = true, r
		case r == ' ' || r == '\t' || r == '\n':
			if inWord {
				words = append(words, word.String())
			}
			word.Reset()
			inWord = false
		default:
			inWord = true
			word.WriteRune(r)
		}
	}
	switch {
	case quote != 0:
		return nil, fmt.Errorf("a quote %c is not closed", quote)
	case escaped:
		return nil, errors.New("nothing follows the last backslash")
	case inWord:
		words = append(words, word.String())
	}
	if len(words) == 0 {
		return nil, errors.New("want a command such as ssh, to which ibrun appends HOST COMMAND")
	}
	return words, nil
}
