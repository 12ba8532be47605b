package policy

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/internal/compare"
)

// Scale distributes the expected replicas of an elastic job among its roles. The role of the fixed type gets 1
// replica. The other roles share the remaining replicas in proportion to their scaling weights, by the largest
// remainder method. If remainders are equal, the earlier role gets the replica. If none of these roles has a weight,
// the first of them gets all remaining replicas.
//
// If there is no role of the fixed type, the leader is a replica of the first role that has a weight. If no role has
// a weight, the leader is a replica of the first role. The role of the leader gets at least 1 replica, unless no
// replicas are expected.
func Scale(fixedType string, roles []framework.Role, expected int32) []framework.Role {
	scaled := slices.Clone(roles)
	var shares []share
	sum := int64(0)
	for i := range scaled {
		role := &scaled[i]
		if role.Type == fixedType {
			role.Replicas = 1
			expected--
			continue
		}
		shares = append(shares, share{role: role, weight: int64(role.ScalingWeight)})
		sum += int64(role.ScalingWeight)
	}
	if len(shares) == 0 {
		return scaled
	}
	if sum == 0 {
		shares[0].weight, sum = 1, 1
	}
	total := int64(max(expected, 0))
	left := total
	for i := range shares {
		s := &shares[i]
		s.replicas, s.remainder = total*s.weight/sum, total*s.weight%sum
		left -= s.replicas
	}
	byRemainder := slices.Clone(shares)
	slices.SortStableFunc(byRemainder, func(a, b share) int { return cmp.Compare(b.remainder, a.remainder) })
	for i := range shares {
		s := &shares[i]
		s.role.Replicas = int32(s.replicas) //nolint:gosec // at most the expected number
	}
	for _, s := range byRemainder[:left] {
		s.role.Replicas++
	}
	if len(shares) == len(scaled) && total > 0 {
		ensureLeader(shares)
	}
	return scaled
}

// share is a role's part of the replicas of an elastic job.
type share struct {
	role                *framework.Role
	weight              int64
	replicas, remainder int64
}

// ensureLeader ensures that the first role that has a weight has a replica. It takes the replica from the role that
// has the most replicas.
func ensureLeader(shares []share) {
	lead := slices.IndexFunc(shares, func(s share) bool { return s.weight > 0 })
	if shares[lead].role.Replicas > 0 {
		return
	}
	most := slices.MaxFunc(shares, func(a, b share) int { return cmp.Compare(a.role.Replicas, b.role.Replicas) })
	most.role.Replicas--
	shares[lead].role.Replicas++
}

// Grow returns the indices of the replicas of a role that should have n replicas. It keeps the present indices and
// adds the lowest free indices below the limit until there are n. The result is shorter than n if too few indices are
// free. It is longer than n if more than n indices are present, because Grow removes none.
func Grow(present []int32, n, limit int32, free func(index int32) bool) []int32 {
	grown := append(make([]int32, 0, n), present...)
	for index := int32(0); index < limit && len(grown) < int(n); index++ {
		if !slices.Contains(present, index) && free(index) {
			grown = append(grown, index)
		}
	}
	slices.Sort(grown)
	return grown
}

// Present is a present replica of an elastic job.
type Present struct {
	Index int32
	// Running reports whether the replica has done work, because it runs or has ended.
	Running bool
	// Leads reports whether the replica is the leader, which is never removed.
	Leads bool
}

// Shrink returns the indices of the replicas that stay if a role should have n replicas. Replicas that do not run are
// removed first, then those with the highest indices. The leader always stays.
func Shrink(present []Present, n int32) []int32 {
	byWorth := slices.Clone(present)
	slices.SortFunc(byWorth, func(a, b Present) int {
		return cmp.Or(compare.FalseFirst(b.Leads, a.Leads), compare.FalseFirst(b.Running, a.Running),
			cmp.Compare(a.Index, b.Index))
	})
	stay := make([]int32, 0, n)
	for i, p := range byWorth {
		if i < int(n) || p.Leads {
			stay = append(stay, p.Index)
		}
	}
	slices.Sort(stay)
	return stay
}

// RecordedIndices returns the indices of the replicas of a type that the status of a job records, in ascending order.
func RecordedIndices(job, roleType string, status *batchv1beta1.JobStatus) []int32 {
	indices := []int32{}
	prefix := strings.TrimSuffix(framework.MemberName(job, roleType, 0), "0")
	for r := range status.EachReplica() { // the name of a replica of another type has no number after the prefix
		if index, err := strconv.ParseInt(strings.TrimPrefix(r.Name, prefix), 10, 32); err == nil {
			indices = append(indices, int32(index))
		}
	}
	return indices
}
