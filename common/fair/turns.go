package fair

import "slices"

// turns is a queue of items. Tenants take turns. The items of a tenant are in the order in which they were added.
type turns[T comparable] struct {
	// order contains the tenants that have items, in the order of their turns.
	order []string
	items map[string][]T
}

// add appends an item to the items of a tenant.
func (t *turns[T]) add(tenant string, item T) {
	if len(t.items[tenant]) == 0 {
		t.order = append(t.order, tenant)
	}
	if t.items == nil {
		t.items = map[string][]T{}
	}
	t.items[tenant] = append(t.items[tenant], item)
}

// remove removes an item. It reports whether the item was in the queue.
func (t *turns[T]) remove(tenant string, item T) bool {
	items := t.items[tenant]
	i := slices.Index(items, item)
	if i < 0 {
		return false
	}
	t.items[tenant] = slices.Delete(items, i, i+1)
	if len(items) == 1 {
		delete(t.items, tenant)
		i := slices.Index(t.order, tenant)
		t.order = slices.Delete(t.order, i, i+1)
	}
	return true
}

// next removes and returns the first item of the next tenant that passes the filter may. If there is no such tenant,
// ok is false.
func (t *turns[T]) next(may func(tenant string) bool) (item T, ok bool) {
	i := slices.IndexFunc(t.order, may)
	if i < 0 {
		return item, false
	}
	tenant := t.order[i]
	t.order = slices.Delete(t.order, i, i+1)
	items := t.items[tenant]
	item = items[0]
	if len(items) == 1 {
		delete(t.items, tenant)
		return item, true
	}
	clear(items[:1]) // allow garbage collection of the item
	t.items[tenant] = items[1:]
	t.order = append(t.order, tenant)
	return item, true
}
