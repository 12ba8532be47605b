package fair

import "slices"

// turns are items that wait. Their tenants take turns, and of one tenant the item that came first is the next.
type turns[T comparable] struct {
	// order has the tenants that have items, the one whose turn it is first.
	order []string
	items map[string][]T
}

// add adds an item, as the last of its tenant.
func (t *turns[T]) add(tenant string, item T) {
	if len(t.items[tenant]) == 0 {
		t.order = append(t.order, tenant)
	}
	if t.items == nil {
		t.items = map[string][]T{}
	}
	t.items[tenant] = append(t.items[tenant], item)
}

// remove removes an item, and reports whether it was there.
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

// next removes the next item of those tenants that may have it, and returns it.
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
	clear(items[:1]) // or it could not be collected
	t.items[tenant] = items[1:]
	t.order = append(t.order, tenant)
	return item, true
}
