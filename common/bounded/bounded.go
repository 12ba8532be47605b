// Package bounded limits the memory for input from other programs and from users.
package bounded

import (
	"bytes"
	"encoding/json"
	"fmt"

	"tensorstack.dev/jobs/common/report"
)

// List returns the items of a JSON array, or nil for null. The parameter most is the maximum number of items. If the
// array has more, List returns an error, because even a short text can contain very many empty items, which need much
// memory. The parameter called is the name of the items in error messages, for example "sources".
func List[T any](text []byte, most int, called string) ([]T, error) {
	var items []T
	err := Items(json.NewDecoder(bytes.NewReader(text)), called, func(item T) error {
		if len(items) == most {
			return fmt.Errorf("there are more than %d %s", most, called)
		}
		items = append(items, item)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return items, nil
}

// Items calls the function do for each item of the JSON array that the decoder reads next. Null has no items. Items
// decodes one item at a time. The parameter called is the name of the items in error messages.
func Items[T any](decoder *json.Decoder, called string, do func(T) error) error {
	if start, err := decoder.Token(); err != nil || start == nil { // null has no items
		return err
	} else if start != json.Delim('[') {
		return fmt.Errorf("the %s must be a list, but begin with %v", called, start)
	}
	for decoder.More() {
		var item T
		if err := decoder.Decode(&item); err != nil {
			return err
		}
		if err := do(item); err != nil {
			return err
		}
	}
	_, err := decoder.Token() // the end of the list; an error if the text is truncated
	return err
}

// Pick returns the labels or annotations whose keys are in names, and truncates their values to the given number of
// bytes. It returns nil if there are no such labels or annotations.
func Pick(from map[string]string, names []string, most int) map[string]string {
	var picked map[string]string
	for _, name := range names {
		value, ok := from[name]
		if !ok {
			continue
		}
		if picked == nil {
			picked = make(map[string]string, len(names))
		}
		picked[name] = report.Truncated(value, most)
	}
	return picked
}
