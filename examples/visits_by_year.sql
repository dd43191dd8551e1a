SELECT WITH DIFFERENTIAL_PRIVACY
  OPTIONS (
    epsilon = 1, delta = 1e-6,
    privacy_unit_column = id,      -- whose row it is: a whole person is hidden, not a row
    max_groups_contributed = 5,    -- a person counts in at most 5 years: all there are
    max_rows_per_group = 1         -- the registry has one row for a person and a year
  )
  year,
  COUNT(*) AS n,
  COUNT(DISTINCT id) AS people,
  -- Bounds are guesses made beforehand, never read from the rows: a visit to the doctor every 12 days,
  AVG(docvis, contribution_bounds_per_row => (0, 30)) AS visits,
  VAR_POP(docvis, contribution_bounds_per_row => (0, 30)) AS variance,
  -- and a household's income of up to 10 thousand marks.
  QUANTILES(hhninc, [0.25, 0.5, 0.75], contribution_bounds_per_row => (0, 10)) AS income
FROM 'rwm5yr.parquet'
GROUP BY year
