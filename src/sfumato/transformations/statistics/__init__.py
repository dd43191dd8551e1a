"""Statistics of privacy units: integers per group to which each unit adds a bounded part of its own."""
