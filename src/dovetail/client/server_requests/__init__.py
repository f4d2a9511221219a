"""What a server may ask of us: `answers` has the table of callbacks for both eras."""
