"""What several of nsys' tables read from a report."""
