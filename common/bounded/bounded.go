// Package bounded reads what a peer sends into limited memory.
package bounded

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// List returns the items of a JSON array, or nil for null. More than so many are an error: many empty items are short
// as text, and large in memory. Errors name the items as they are called, such as "sources".
func List[T any](text []byte, most int, called string) ([]T, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if start, err := decoder.Token(); err != nil || start == nil { // null is none
		return nil, err
	} else if start != json.Delim('[') {
		return nil, fmt.Errorf("the %s begin with %v, and are no list", called, start)
	}
	var items []T
	for decoder.More() {
		if len(items) == most {
			return nil, fmt.Errorf("there are more than %d %s", most, called)
		}
		var item T
		if err := decoder.Decode(&item); err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}
